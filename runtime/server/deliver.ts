// Runs a job and writes its answer: one JSON object, or frames while it runs with usage where the client asked for it.
import type { ServerResponse } from "node:http";
import type { AnswerFormat } from "./answer-format.ts";
import { EventStream } from "./event-stream.ts";
import { renderError } from "./render-error.ts";
import { RequestError } from "./request-error.ts";
import type { CommonRequest } from "./sampling-fields.ts";
import { type ChoiceSink, EngineRefusal, type GenerationJob, type TextEngine } from "./text-engine.ts";
import { type UsageEntry, usageBody } from "./usage-log.ts";
import { writeJson } from "./write-json.ts";

export interface Exchange {
  readonly response: ServerResponse;
  /** Aborts when the client is gone. */
  readonly signal: AbortSignal;
  readonly usage: UsageEntry;
  /** Evaluated prompts are reused only within it. */
  readonly cacheScope: string;
  readonly onFirstToken: () => void;
}

export async function deliver(
  engine: TextEngine,
  job: GenerationJob,
  format: AnswerFormat,
  request: Pick<CommonRequest, "stream" | "includeUsage" | "continuousUsage">,
  exchange: Exchange,
): Promise<void> {
  await (request.stream ? streamed(engine, job, format, request, exchange) : complete(engine, job, format, exchange));
}

async function complete(
  engine: TextEngine,
  job: GenerationJob,
  format: AnswerFormat,
  exchange: Exchange,
): Promise<void> {
  const { response, signal, usage } = exchange;
  const sink: ChoiceSink = {
    prompt: (choice, scores) => format.prompt?.(choice, scores),
    piece: (choice, piece) => {
      exchange.onFirstToken();
      format.piece(choice, piece);
      usage.reasoningTokens = format.reasoningTokens ?? 0;
      return undefined;
    },
    finish: (choice, reason) => void format.finish(choice, reason),
  };
  await engine.generate(job, sink, usage, signal);
  if (signal.aborted) return;
  writeJson(response, 200, {
    ...format.wholeHead,
    choices: format.whole(),
    usage: usageBody(usage),
    ...format.wholeTail,
  });
}

async function streamed(
  engine: TextEngine,
  job: GenerationJob,
  format: AnswerFormat,
  request: Pick<CommonRequest, "includeUsage" | "continuousUsage">,
  { response, signal, usage, onFirstToken }: Exchange,
): Promise<void> {
  const stream = new EventStream(response);
  const running = () => (request.continuousUsage ? { usage: usageBody(usage) } : {});
  const send = (choices: readonly unknown[]) =>
    choices
      .map((choice) => stream.send(JSON.stringify({ ...format.frameHead, choices: [choice], ...running() })))
      .at(-1);
  const sink: ChoiceSink = {
    prompt: (choice, scores) => format.prompt?.(choice, scores),
    piece: (choice, piece) => {
      onFirstToken();
      const frames = format.piece(choice, piece);
      usage.reasoningTokens = format.reasoningTokens ?? 0;
      return send(frames);
    },
    finish: (choice, reason) => void send(format.finish(choice, reason)),
  };
  try {
    await engine.generate(job, sink, usage, signal);
  } catch (error) {
    // A refusal before the first byte keeps its own status.
    if (!stream.hasStarted) throw error;
    const broken =
      error instanceof EngineRefusal
        ? renderError(error)
        : new RequestError(500, "the model server failed while it generated; try again", { cause: error });
    void stream.send(JSON.stringify(broken.body));
    stream.end();
    throw broken;
  }
  if (signal.aborted) return;
  if (request.includeUsage)
    void stream.send(JSON.stringify({ ...format.frameHead, choices: [], usage: usageBody(usage) }));
  void stream.send("[DONE]");
  stream.end();
}
