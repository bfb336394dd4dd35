// Runs a job and writes its answer: one JSON object, or frames while it runs with usage where the client requested it.
import type { AnswerFormat } from "./answer-format.ts";
import type { TaskCall } from "./engine.ts";
import { EventStream } from "./event-stream.ts";
import { renderError } from "./render-error.ts";
import { RequestError } from "./request-error.ts";
import type { CommonRequest } from "./sampling-fields.ts";
import { type ChoiceSink, EngineRefusal, type GenerationJob, type TextEngine } from "./text-engine.ts";
import { usageBody } from "./usage-log.ts";
import { writeJson } from "./write-json.ts";

export type Exchange = Pick<TaskCall, "response" | "signal" | "usage" | "cacheScope" | "onFirstToken">;

/** `head`: first fields of an answer by its `object`. */
export async function deliver(
  engine: TextEngine,
  job: GenerationJob,
  format: AnswerFormat,
  head: (object: string) => object,
  request: Pick<CommonRequest, "stream" | "includeUsage" | "continuousUsage">,
  { response, signal, usage, onFirstToken }: Exchange,
): Promise<void> {
  const stream = request.stream ? new EventStream(response) : undefined;
  const frameHead = head(format.objects.frame);
  const running = () => (request.continuousUsage ? { usage: usageBody(usage) } : {});
  const send = (choices: readonly unknown[]) =>
    choices.map((choice) => stream?.send(JSON.stringify({ ...frameHead, choices: [choice], ...running() }))).at(-1);
  const sink: ChoiceSink = {
    prompt: (choice, scores) => format.prompt?.(choice, scores),
    piece: (choice, piece) => {
      onFirstToken();
      const entries = format.piece(choice, piece);
      usage.reasoningTokens = format.reasoningTokens ?? 0;
      return stream && send(entries);
    },
    finish: (choice, reason, stop) => {
      const entries = format.finish(choice, reason, stop);
      if (stream) void send(entries);
    },
  };
  try {
    await engine.generate(job, sink, usage, signal);
  } catch (error) {
    // A refusal before the first byte keeps its own status.
    if (!stream?.hasStarted) throw error;
    const broken =
      error instanceof EngineRefusal
        ? renderError(error)
        : new RequestError(500, "the model server failed while it generated; try again", { cause: error });
    void stream.send(JSON.stringify(broken.body));
    stream.end();
    throw broken;
  }
  if (signal.aborted) return;
  if (!stream) {
    const body = { ...head(format.objects.whole), choices: format.whole(), usage: usageBody(usage) };
    return writeJson(response, 200, { ...body, ...format.wholeTail });
  }
  if (request.includeUsage) void stream.send(JSON.stringify({ ...frameHead, choices: [], usage: usageBody(usage) }));
  void stream.send("[DONE]");
  stream.end();
}
