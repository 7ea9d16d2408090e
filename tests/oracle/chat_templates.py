#!/usr/bin/env python3
"""Writes tests/chat/template_golden.json: what jinja2, set up as transformers sets it up, makes of the templates in tests/chat/templates
and of small ones (tests/oracle/template_snippets.json), for conversations that are made here. test_template compares. Needs transformers.

Usage: chat_templates.py                    the file that is kept
       chat_templates.py all FILE.jinja...  other templates, with all conversations, on standard output: test_template FILE compares those"""
import datetime, glob, json, os, sys
from transformers.utils import chat_template_utils as utils

HERE = os.path.dirname(os.path.abspath(__file__))
CHAT = os.path.join(HERE, "..", "chat")


class Now(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls(2025, 3, 9)


utils.datetime = Now


def u(text): return {"role": "user", "content": text}
def a(text, **more): return {"role": "assistant", "content": text, **more}
def s(text): return {"role": "system", "content": text}
def t(text, **more): return {"role": "tool", "content": text, **more}
def call(name, arguments, **more): return {"type": "function", "function": {"name": name, "arguments": arguments}, **more}


WEATHER = {"type": "function", "function": {"name": "get_weather", "description": "Says how the weather is.", "parameters": {
    "type": "object", "properties": {"city": {"type": "string", "description": "a town"}, "unit": {"type": "string", "enum": ["C", "F"]},
                                     "days": {"type": "array", "items": {"type": "integer"}}, "deep": {"type": "object", "properties": {"x": {"type": ["number", "null"]}}, "required": ["x"]}},
    "required": ["city"]}, "return": {"type": "string"}}}
SUM = {"type": "function", "function": {"name": "add", "description": "Adds <numbers> & \"more\" 'here' äöü", "parameters": {
    "type": "object", "properties": {"a": {"type": "number", "default": 1.5}, "b": {"type": "boolean"}}}}}
BARE = {"type": "function", "function": {"name": "now", "description": "", "parameters": {"type": "object", "properties": {}}}}
CALLS = [u("How warm is it in Bern?"), a("", tool_calls=[call("get_weather", {"city": "Bern", "unit": "C"}, id="abcdefghi")]),
         t("12.5", name="get_weather", tool_call_id="abcdefghi"), a("It is 12.5 degrees.")]
TWO = [s("Use tools."), u("Add, then look."), a("I will.", tool_calls=[call("add", {"a": 1, "b": True}, id="aaaaaaaaa"), call("get_weather", {"city": "Zürich", "days": [1, 2], "deep": {"x": None}}, id="bbbbbbbbb")]),
       t("3", name="add", tool_call_id="aaaaaaaaa"), t("rain & \"wind\"", name="get_weather", tool_call_id="bbbbbbbbb"), a("Three; rain."), u("Thanks"), a("Welcome")]
PARTS = [{"role": "user", "content": [{"type": "text", "text": "Look: "}, {"type": "text", "text": "two parts"}]}, {"role": "assistant", "content": [{"type": "text", "text": "Seen."}]}]
IMAGE = [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "What is it?"}]}, a("A cat.")]


def case(messages, kept=False, **more):
    variables = {"messages": messages, "tools": None, "documents": None, "add_generation_prompt": False,
                 "bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
    variables.update(more)
    return {"kept": kept, "variables": variables}


CASES = [
    case([u("Hello"), a("Hi there")], kept=True),
    case([s("You are terse."), u("Hello"), a("Hi"), u("And you?"), a("Fine.")], kept=True),
    case([u("Hello")], kept=True, add_generation_prompt=True),
    case([s("Be brief."), u("Hello")], add_generation_prompt=True),
    case([u("  spaces \n"), a("\tboth sides  \n\n"), u("änd 漢字 \u2003"), a("\u3000wide\u00a0 e\u0301 \U0001f600")], kept=True),
    case([s("  padded system \n"), u("  padded user  "), a("  padded answer  ")]),
    case([s(""), u(""), a("")]),
    case([u("<|im_end|> [INST] </s> {{ 7 * 7 }} <<SYS>>"), a("'quotes' \"and\" \\n\\ backslashes <think> </think>")], kept=True),
    case([a("assistant first"), u("then user")], kept=True),
    case([u("one"), u("two"), a("three")]),
    case([u("late"), s("system"), a("!")]),
    case([s("one"), s("two"), u("x"), a("y")]),
    case([u("x"), {"role": "critic", "content": "no such role"}]),
    case([]),
    case([s("a system message alone")]),
    case([u("q"), a("<think>\nso it is\n</think>\n\nThe answer."), u("again"), a("<think>more</think>Other.")], kept=True),
    case([u("q"), a("The answer.", reasoning_content="so it is"), u("again"), a("Other.", reasoning_content=" more \n")], kept=True),
    case([u("q"), a("The answer.", thinking="so it is"), u("again"), a("Other.", thinking="")]),
    case([u("q"), a("x", reasoning_content=None)], enable_thinking=False),
    case([u("q")], kept=True, add_generation_prompt=True, enable_thinking=False),
    case([u("q")], add_generation_prompt=True, enable_thinking=True),
    case(CALLS, kept=True, tools=[WEATHER]),
    case(TWO, kept=True, tools=[WEATHER, SUM, BARE]),
    case(CALLS[:3], tools=[WEATHER, SUM], add_generation_prompt=True),
    case(TWO, tools=[]),
    case([u("q"), {"role": "assistant", "content": None, "tool_calls": [call("add", {"a": 1})]}, t("1")], kept=True, tools=[SUM]),
    case([u("q"), {"role": "assistant", "tool_calls": [call("add", "{\"a\": 1}", id="ccccccccc")]}, t("1", tool_call_id="ccccccccc"), a("1")], tools=[SUM]),
    case([u("q"), {"role": "assistant", "content": "", "reasoning_content": "think first", "tool_calls": [call("now", {})]}, t("noon"), a("Noon.")], tools=[BARE]),
    case(PARTS, kept=True),
    case(IMAGE),
    case([{"role": "user", "content": None}, a("x")], kept=True),
    case([{"role": "user"}, a("x")]),
    case([{"content": "no role"}, a("x")]),
    case([u("q"), {"role": "developer", "content": "do it"}, a("x")]),
    case([{"role": "developer", "content": "do it"}, u("q"), a("x")]),
    case([u("%d?" % i) if i % 2 == 0 else a("%d." % i) for i in range(24)]),
    case([u("q"), a("x")], documents=[{"title": "T", "text": "words"}, {"title": "U", "text": "more"}]),
    case([u("q"), a("x")], date_string="1 Jan 2030", custom_tools=[SUM], tools_in_user_message=False, builtin_tools=["code_interpreter", "search"]),
    case([u("q"), {"role": "assistant", "content": "x", "tool_calls": [{"name": "add", "arguments": {"a": 2.0, "b": [1e22, -0.0, 1e-7, True, None]}}]}, t({"r": [1, 2]}, name="add"), a("y")], tools=[SUM["function"]]),
    case([u(12), a(["x", 3])], kept=True),
]


def run(text, variables):
    try:
        compiled = utils._compile_jinja_template(text)
        rendered, spans = utils._render_with_assistant_indices(compiled_template=compiled, **variables)
        return {"text": rendered, "spans": spans}
    except Exception as error:  # the template's own raise_exception, and Python's errors
        return {"text": None, "error": "%s: %s" % (type(error).__name__, error)}


def main():
    every = len(sys.argv) > 2 and sys.argv[1] == "all"
    paths = sys.argv[2:] if every else sorted(glob.glob(os.path.join(CHAT, "templates", "*.jinja")))
    cases = [c["variables"] for c in CASES if every or c["kept"]]
    out = {"cases": cases, "templates": [], "snippets": []}
    for path in paths:
        with open(path, encoding="utf-8", newline="") as file:
            text = file.read()
        results = [run(text, variables) for variables in cases]
        out["templates"].append({"name": os.path.basename(path), "text": text, "results": results})
    if not every:
        with open(os.path.join(CHAT, "template_snippets.json"), encoding="utf-8") as file:
            snippets = json.load(file)
        variables = {"messages": [], "tools": None, "documents": None, "add_generation_prompt": False, **snippets["variables"]}
        out["variables"] = variables
        out["snippets"] = [[text, run(text, variables)] for text in snippets["templates"]]
    text = json.dumps(out, ensure_ascii=False, indent=None if every else 1) + "\n"
    if every:
        sys.stdout.write(text)
        return
    with open(os.path.join(CHAT, "template_golden.json"), "w", encoding="utf-8") as file:
        file.write(text)


main()
