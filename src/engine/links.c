// Instructions of links: what goes from a chunk of a pipeline to the next one, and back. The slot is
// that of the current micro-batch.
#include "engine/execute.h"
#include "engine/unit_context.h"

zero_status zr_execute_receive(zero_engine *engine, const zr_instruction *i, zero_error *error)
{
    int link = i->slot.index;
    int64_t bytes = engine->cursor.bytes_in ? engine->cursor.bytes_in : i->bytes;
    return zr_channel_receive(&engine->channels, link, zr_engine_slot(engine, link), bytes, error);
}

zero_status zr_execute_take(zero_engine *engine, const zr_instruction *i, zero_error *error)
{
    int link = i->slot.index;
    return zr_channel_take(&engine->channels, link, zr_engine_slot(engine, link), error);
}

zero_status zr_execute_send(zero_engine *engine, const zr_instruction *i, zero_error *error)
{
    int link = i->slot.index;
    int64_t bytes = engine->cursor.bytes_out ? engine->cursor.bytes_out : i->bytes;
    return zr_channel_send(&engine->channels, link, zr_engine_slot(engine, link), bytes, error);
}

zero_status zr_execute_give(zero_engine *engine, const zr_instruction *i, zero_error *error)
{
    int link = i->slot.index;
    return zr_channel_release(&engine->channels, link, zr_engine_slot(engine, link), error);
}
