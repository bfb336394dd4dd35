// A task that takes a JSON object and answers with one.
import type { Operation, TaskCall, TaskRoute } from "../server/engine.ts";
import { type Body, Fields } from "../server/fields.ts";
import { readBody } from "../server/read-body.ts";
import { writeText } from "../server/write-json.ts";

/** `answer` gives the JSON text; with the client gone, nothing of it is written. */
export function jsonRoute(
  operation: Operation,
  answer: (fields: Fields, call: TaskCall, body: Body) => Promise<string>,
): TaskRoute {
  return {
    operation,
    async run(call) {
      const body = await readBody(call.request);
      const text = await answer(new Fields(body), call, body);
      if (!call.signal.aborted) writeText(call.response, 200, text);
    },
  };
}
