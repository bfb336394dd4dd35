// Tasks that take a JSON object and answer with one.
import type { Operation, TaskCall, TaskRoute } from "../server/engine.ts";
import { Fields } from "../server/fields.ts";
import { readBody } from "../server/read-body.ts";
import { invalid } from "../server/request-error.ts";
import { writeText } from "../server/write-json.ts";
import type { OpenTask } from "./task-engine.ts";

/** `answer` gives the JSON text; with the client gone, nothing of it is written. */
export function jsonRoute(
  operation: Operation,
  answer: (fields: Fields, call: TaskCall) => Promise<string>,
): TaskRoute {
  return {
    operation,
    async run(call) {
      const text = await answer(new Fields(await readBody(call.request)), call);
      if (!call.signal.aborted) writeText(call.response, 200, text);
    },
  };
}

/** A task with POST /v1/infer only. `answer` gives the keys of the reply before its usage. */
export function nativeTask(
  contextLength: number,
  load: OpenTask["load"],
  answer: (fields: Fields, call: TaskCall) => Promise<Readonly<Record<string, unknown>>>,
): OpenTask {
  const route = jsonRoute("inference", async (fields, call) => nativeAnswer(call, await answer(fields, call)));
  return { contextLength, routes: new Map([["/v1/infer", route]]), load };
}

/** The keys of a native answer, then its tokens. */
export function nativeAnswer(call: TaskCall, result: Readonly<Record<string, unknown>>): string {
  call.onFirstToken();
  const { inputTokens, units } = call.usage;
  const usage = { prompt_tokens: inputTokens, total_tokens: inputTokens, items: units?.items ?? 1 };
  return JSON.stringify({ ...result, ...(inputTokens > 0 ? { input_tokens: inputTokens } : {}), usage });
}

/** Throws RequestError. */
export function requiredText(fields: Fields, name: string): string {
  const text = fields.string(name);
  if (text === undefined || text.trim() === "") throw invalid(name, `${name} is required: a text that is not empty`);
  return text;
}
