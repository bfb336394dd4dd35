// POST /v1/chat/completions: messages -> prompt by the model's template -> job -> answer. POST /tokenize: the length of that prompt.
import type { ToolFormat } from "../llama/tools/tool-format.ts";
import { answerHead, answerOptions } from "./answer-format.ts";
import { ChatAnswer } from "./chat-answer.ts";
import { type ChatRequest, readChatRequest } from "./chat-request.ts";
import { deliver, type Exchange } from "./deliver.ts";
import type { Body } from "./fields.ts";
import { RequestError } from "./request-error.ts";
import type { ServedModel } from "./served-model.ts";
import type { Constraint, TextEngine } from "./text-engine.ts";
import { writeJson } from "./write-json.ts";

/** Calls that "required" may make at once: an end, also for a model that would never stop calling. */
const maxParallelCalls = 4;

export async function runChat(engine: TextEngine, model: ServedModel, body: Body, exchange: Exchange): Promise<void> {
  const request = readChatRequest(body, engine.takesImages);
  const { prompt, tools, newReader } = await promptOf(engine, model, request);
  const { toolFormat } = engine;
  const readsAnswer = newReader(tools.length > 0) !== undefined;
  const wanted = (toolFormat && callConstraint(request, toolFormat)) ?? request.constraint;
  const constraint = wanted ? await engine.compile(wanted, exchange.signal) : undefined;
  const job = {
    ...request,
    prompt,
    scorePrompt: false,
    constraint,
    adapter: model.adapter,
    cacheScope: exchange.cacheScope,
    showsSpecialTokens: readsAnswer,
  };
  const format = new ChatAnswer(answerOptions(engine, request), () => newReader(tools.length > 0));
  await deliver(engine, job, format, answerHead("chatcmpl", model.name), request, exchange);
}

/** Takes the body of a chat and responds as vLLM does, without the tokens. */
export async function runTokenize(
  engine: TextEngine,
  model: ServedModel,
  body: Body,
  { response, signal }: Exchange,
): Promise<void> {
  const request = readChatRequest(body, engine.takesImages);
  const { prompt } = await promptOf(engine, model, request);
  const count = await engine.promptLength({ prompt, images: request.images }, signal);
  if (!signal.aborted) writeJson(response, 200, { count, max_model_len: engine.contextLength });
}

async function promptOf(engine: TextEngine, model: ServedModel, request: ChatRequest) {
  if (request.tools.length > 0 && !engine.toolFormat)
    throw new RequestError(405, `Tool calling is not supported for model: ${model.name}`, { param: "tools" });
  const tools = request.toolChoice.kind === "none" ? [] : request.tools;
  const { tokens: prompt, newReader } = await engine.renderChat({
    messages: request.messages,
    tools: tools.length > 0 ? tools.map((tool) => tool.wire) : undefined,
    continuesLastMessage: request.continuesLastMessage,
    templateArguments: { ...request.reasoning, ...request.templateArguments },
  });
  return { prompt, tools, newReader };
}

/** A grammar holds `required` and a named tool; `auto` leaves the model free. */
function callConstraint(request: ChatRequest, format: ToolFormat): Constraint | undefined {
  const { toolChoice, tools } = request;
  if (toolChoice.kind !== "required" && toolChoice.kind !== "named") return undefined;
  const allowed = toolChoice.kind === "named" ? tools.filter((tool) => tool.name === toolChoice.name) : tools;
  const maxCalls = toolChoice.kind === "required" && request.allowsParallelCalls ? maxParallelCalls : 1;
  return {
    kind: "tools",
    format: format.name,
    tools: allowed.map(({ name, parameters }) => ({ name, parameters })),
    maxCalls,
  };
}
