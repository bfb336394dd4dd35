// Which tier served a request that named one: there is one, so every other is served at it, and the answer says so.

import type { AnswerSink } from "../../inference/answer-sink.ts";
import type { ResponseBuffer } from "../../inference/response-buffer.ts";
import { BufferedSink } from "./buffered-sink.ts";
import type { ClientSink } from "./client-sink.ts";
import { RewrittenStream } from "./rewritten-stream.ts";

/** Undefined: the answer goes straight to the client. */
export function tierOf(
  asked: unknown,
  isStream: boolean,
  answers: ResponseBuffer,
): ((client: ClientSink) => AnswerSink) | undefined {
  if (typeof asked !== "string") return undefined;
  if (isStream) return (client) => new RewrittenStream(client, (data) => withTier(data));
  return (client) =>
    new BufferedSink(client, answers, ({ contentType, body }) => ({
      contentType,
      body: Buffer.from(withTier(body.toString())),
    }));
}

const told = '"service_tier":"default"';

/** Engines that know the field say null; in a text of the model's own its quotes are escaped. */
export function withTier(json: string): string {
  if (json.includes(told) || json.startsWith('{"error"')) return json;
  const without = json.replace(/"service_tier":\s*null/, told);
  return without === json && json.startsWith('{"') ? `{${told},${json.slice(1)}` : without;
}
