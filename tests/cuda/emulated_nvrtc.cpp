// A libnvrtc.so over the emulated driver: what it makes of a file of kernels is an image that names
// those that the driver has of it, compiled for the CPU (emulated_kernels.cpp). It refuses what
// NVRTC refuses of options and headers. EMULATED_FAIL knows its functions, too.
#include "../../src/cuda/nvrtc_api.h"
#include "emulated.h"

#include <set>

struct _nvrtcProgram {
    std::string text, name, log, image;
    std::set<std::string> headers;
};

#define EMULATED_NVRTC(result, name, parameters) EMULATED_API result name parameters;
ZR_NVRTC_FUNCTIONS(EMULATED_NVRTC)
#undef EMULATED_NVRTC

namespace {

enum : zr_nvrtc_result {
    success = 0,
    invalid_input = 3,
    invalid_option = 5,
    compilation_failed = 6,
    internal_error = 11
};

bool begin(const char *name) { return emulated::begin(name, false) != 999; }

// The first header that a text includes and nobody gave; or nothing.
std::string missing_header(const _nvrtcProgram &of, const std::string &text)
{
    static const std::string word = "#include \"";
    for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
        const size_t first = at + word.size();
        const std::string name = text.substr(first, text.find('"', first) - first);
        if (!of.headers.count(name))
            return name;
    }
    return "";
}

bool is_option(const std::string &option)
{
    static const std::set<std::string> known = {"-std=c++17", "--fmad=false", "-fmad=false"};
    return known.count(option) || option.rfind("-arch=sm_", 0) == 0;
}

} // namespace

zr_nvrtc_result nvrtcVersion(int *major, int *minor)
{
    *major = 13;
    *minor = 99; // as no real one, whose compiled kernels are kept under its version
    return success;
}

const char *nvrtcGetErrorString(zr_nvrtc_result result)
{
    return result == success              ? "NVRTC_SUCCESS"
           : result == invalid_input      ? "NVRTC_ERROR_INVALID_INPUT"
           : result == invalid_option     ? "NVRTC_ERROR_INVALID_OPTION"
           : result == compilation_failed ? "NVRTC_ERROR_COMPILATION"
                                          : "NVRTC_ERROR_INTERNAL_ERROR";
}

zr_nvrtc_result nvrtcCreateProgram(zr_nvrtc_program *program, const char *text, const char *name,
                                   int header_count, const char *const *headers,
                                   const char *const *header_names)
{
    if (!begin("nvrtcCreateProgram"))
        return internal_error;
    if (!text || (header_count && !headers))
        return invalid_input;
    *program = new _nvrtcProgram{text, name ? name : "", "", "", {}};
    for (int i = 0; i < header_count; i++)
        (*program)->headers.insert(header_names[i]);
    return success;
}

zr_nvrtc_result nvrtcDestroyProgram(zr_nvrtc_program *program)
{
    bool fails = !begin("nvrtcDestroyProgram");
    delete *program;
    *program = nullptr;
    return fails ? (zr_nvrtc_result)internal_error : (zr_nvrtc_result)success;
}

zr_nvrtc_result nvrtcCompileProgram(zr_nvrtc_program program, int option_count,
                                    const char *const *options)
{
    if (!begin("nvrtcCompileProgram"))
        return internal_error;
    for (int i = 0; i < option_count; i++)
        if (!is_option(options[i])) {
            program->log = std::string("unrecognized option ") + options[i];
            return invalid_option;
        }
    const std::string missing = missing_header(*program, program->text);
    if (!missing.empty()) {
        program->log = "could not open source file \"" + missing + "\"";
        return compilation_failed;
    }
    program->image = emulated::image_of(program->name.c_str());
    return success;
}

zr_nvrtc_result nvrtcGetProgramLogSize(zr_nvrtc_program program, size_t *bytes)
{
    *bytes = program->log.size() + 1;
    return success;
}

zr_nvrtc_result nvrtcGetProgramLog(zr_nvrtc_program program, char *log)
{
    memcpy(log, program->log.c_str(), program->log.size() + 1);
    return success;
}

zr_nvrtc_result nvrtcGetCUBINSize(zr_nvrtc_program program, size_t *bytes)
{
    if (!begin("nvrtcGetCUBINSize"))
        return internal_error;
    *bytes = program->image.size();
    return success;
}

zr_nvrtc_result nvrtcGetCUBIN(zr_nvrtc_program program, char *image)
{
    if (!begin("nvrtcGetCUBIN"))
        return internal_error;
    memcpy(image, program->image.data(), program->image.size());
    return success;
}
