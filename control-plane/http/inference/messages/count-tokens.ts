// Counts the tokens of a prompt by the tokenizer of an instance, through the same steps as any request, free of charge. Our runtime
// and vLLM render and count in one step; llama.cpp's server renders in one and counts in another.

import type { Caller } from "../../../accounts/caller.ts";
import type { ReasoningSeal } from "../../../accounts/reasoning-seals.ts";
import { modelFor } from "../../../inference/admit.ts";
import { complete, type Spine } from "../../../inference/complete.ts";
import { type Completion, taskCompletion } from "../../../inference/completion.ts";
import { upstreamBroken, WrongTask } from "../../../inference/errors.ts";
import { exactly } from "../../../inference/task.ts";
import { badRequest } from "../../../service-error.ts";
import type { RequestState } from "../../core/request-state.ts";
import { checkFormat } from "../check-format.ts";
import { KeptSink } from "../kept-sink.ts";
import { jsonBody } from "../tasks/json-task.ts";
import type { PromptBody } from "./message-request-schemas.ts";
import { hasImage, promptFields } from "./to-chat.ts";

type Fields = Readonly<Record<string, unknown>>;

/** Engines send the tokens beside their number. */
const maxAnswerBytes = 64 * 1024 * 1024;

const countUnsupported = (message: string) => badRequest("unsupported_value", message, { param: "model" });

/** Undefined: the client disconnected. Throws the errors of complete.ts and of the edge. */
export async function countTokens(
  spine: Spine,
  body: PromptBody,
  seal: ReasoningSeal | undefined,
  state: RequestState,
): Promise<number | undefined> {
  const caller = state.caller as Caller;
  const model = modelFor(spine.models, caller, body.model);
  if (model.engine === "external" && hasImage(body))
    throw countUnsupported("This model's server cannot count the tokens of images. Leave them out.");
  const fields = promptFields(body, seal);
  checkFormat(fields);
  const prompt = { ...fields, ...(fields["continue_final_message"] === true ? { add_generation_prompt: false } : {}) };
  const isAlias = spine.models.aliasOf(body.model, caller.account) !== undefined;
  const ask = (enginePath: string, asked: Fields) => {
    // The later steps need the tokenizer of the same model, which an alias may not choose again.
    const chosen = isAlias ? state.model : undefined;
    const name = chosen === undefined ? { model: body.model } : { model: chosen, alias: body.model };
    return run(spine, caller, { ...taskOf(enginePath, asked), ...name }, state);
  };
  try {
    const counted = await ask("/tokenize", prompt);
    if (!counted || isCount(counted["count"])) return counted?.["count"] as number | undefined;
    const rendered = await ask("/apply-template", prompt);
    const content = rendered?.["prompt"];
    if (!rendered || typeof content !== "string") return notCounted(rendered);
    const split = await ask("/tokenize", { content, add_special: true });
    const tokens = split?.["tokens"];
    return Array.isArray(tokens) ? tokens.length : notCounted(split);
  } catch (error) {
    throw error instanceof WrongTask && model.task === "text-generation"
      ? countUnsupported("This model's server cannot count tokens. Send the message to learn its usage.")
      : error;
  }
}

function notCounted(answer: Fields | undefined): undefined {
  if (answer) throw upstreamBroken({ cause: new Error("the engine's response contains no tokens") });
}

const isCount = (value: unknown): boolean => Number.isSafeInteger(value) && (value as number) >= 0;

const taskOf = (enginePath: string, fields: Fields): Completion =>
  taskCompletion("token_count", "", {
    enginePath,
    inputTokensBound: 0,
    inputTokensEstimate: 0,
    units: () => exactly({}),
    body: jsonBody(fields),
  });

/** Undefined: the client disconnected. */
async function run(
  spine: Spine,
  caller: Caller,
  completion: Completion,
  state: RequestState,
): Promise<Fields | undefined> {
  const sink = new KeptSink(spine.answers, caller.account, maxAnswerBytes);
  state.client = { clientGone: () => sink.abandon() };
  state.operation = completion.kind;
  try {
    await complete(spine, caller, completion, sink, state);
    if (state.isClosed) return undefined;
    if (!sink.answer)
      throw upstreamBroken({ cause: new Error("the engine sent no response, or one that is too large") });
    return fieldsOf(sink.answer.body);
  } finally {
    state.client = undefined;
    sink.letGo();
  }
}

function fieldsOf(body: Buffer): Fields {
  let value: unknown;
  try {
    value = JSON.parse(body.toString());
  } catch (error) {
    throw upstreamBroken({ cause: error });
  }
  return typeof value === "object" && value !== null ? (value as Fields) : {};
}
