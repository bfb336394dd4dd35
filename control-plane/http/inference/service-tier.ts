// Adds the service tier to the response of a request that named one. There is one tier, which serves all.
import type { AnswerSink } from "../../inference/answer-sink.ts";
import type { ResponseBuffer } from "../../inference/response-buffer.ts";
import { BufferedSink } from "./buffered-sink.ts";
import type { ClientSink } from "./client-sink.ts";
import { RewrittenStream } from "./rewritten-stream.ts";

/** Undefined: the response needs no rewriting. */
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

const member = '"service_tier":"default"';

/** Some engines send the field as null. Text of the model cannot match, because its quotes are escaped. */
export function withTier(json: string): string {
  if (json.includes(member) || json.startsWith('{"error"')) return json;
  const replaced = json.replace(/"service_tier":\s*null/, member);
  return replaced === json && json.startsWith('{"') ? `{${member},${json.slice(1)}` : replaced;
}
