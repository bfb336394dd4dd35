// A client that continues its stream after each broken connection, as the documentation says: the same request with the same key and the
// id of the last event.
import { randomUUID } from "node:crypto";

export interface StreamEvent {
  /** Undefined for an error that ended one connection. */
  readonly id: number | undefined;
  readonly name: string | undefined;
  readonly data: string;
}

/** Events of a response as they come. Rejects when the connection breaks. */
export async function* eventsOf(response: Response): AsyncGenerator<StreamEvent> {
  let rest = "";
  const decoder = new TextDecoder();
  for await (const chunk of response.body as ReadableStream<Uint8Array>) {
    rest += decoder.decode(chunk, { stream: true });
    for (let end = rest.indexOf("\n\n"); end >= 0; end = rest.indexOf("\n\n")) {
      const frame = rest.slice(0, end);
      rest = rest.slice(end + 2);
      const field = (name: string) => new RegExp(`^${name}: ?(.*)$`, "m").exec(frame)?.[1];
      const data = field("data");
      const id = field("id");
      if (data !== undefined) yield { id: id === undefined ? undefined : Number(id), name: field("event"), data };
    }
  }
}

/** The stream cannot be continued. */
class StreamLost extends Error {
  override readonly name = "StreamLost";
  readonly code: string;

  constructor(code: string) {
    super(`the stream ended with ${code}`);
    this.code = code;
  }
}

/** Throws if the error says that the stream cannot be continued. */
function requireContinuable(body: string): void {
  const code = /"code":"(stream_[a-z_]+)"/.exec(body)?.[1];
  if (code !== undefined) throw new StreamLost(code);
}

export interface ResumedStream {
  readonly events: StreamEvent[];
  readonly requestId: string;
  /** Connections after the first. */
  readonly reconnects: number;
}

const isLast = ({ name, data }: StreamEvent) =>
  data === "[DONE]" || name === "message_stop" || name === "response.completed" || name === "response.incomplete";

export interface ResumeOptions {
  /** Addresses of control planes, used in turn. */
  readonly urls: readonly string[];
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: object;
  readonly onEvent?: (event: StreamEvent) => void;
  /** Pause before a connection after the first, and the number of them. */
  readonly pauseMs?: number;
  readonly maxReconnects?: number;
}

/** Reads a stream to its last event. Throws StreamLost, or when it needs too many connections, or an id is missing or repeated. */
export async function readResumed(options: ResumeOptions): Promise<ResumedStream> {
  const { urls, path, headers, body, onEvent, pauseMs = 100, maxReconnects = 100 } = options;
  const key = randomUUID();
  const events: StreamEvent[] = [];
  let requestId = "";
  let problem: unknown;
  for (let connection = 0; connection <= maxReconnects; connection++) {
    if (connection > 0) await new Promise((resolve) => setTimeout(resolve, pauseMs));
    try {
      const response = await fetch(`${urls[connection % urls.length]}${path}`, {
        method: "POST",
        headers: {
          "content-type": "application/json",
          ...headers,
          "idempotency-key": key,
          "x-stoker-resumable": "true",
          ...(events.length > 0 ? { "last-event-id": String(events.at(-1)?.id) } : {}),
        },
        body: JSON.stringify(body),
      });
      if (response.status !== 200) {
        const text = await response.text();
        requireContinuable(text);
        problem = new Error(`${response.status} ${text}`);
        continue;
      }
      requestId = response.headers.get("x-stoker-request-id") ?? "";
      for await (const event of eventsOf(response)) {
        if (event.id === undefined) {
          requireContinuable(event.data);
          problem = new Error(event.data);
          continue;
        }
        if (event.id !== events.length + 1) throw new Error(`event ${event.id} after ${events.length}`);
        events.push(event);
        onEvent?.(event);
        if (isLast(event)) return { events, requestId, reconnects: connection };
      }
    } catch (error) {
      if (error instanceof StreamLost || (error instanceof Error && error.message.startsWith("event "))) throw error;
      problem = error;
    }
  }
  throw new Error(`the stream did not end after ${maxReconnects + 1} connections`, { cause: problem });
}

/** The generated text of a chat, a text completion, a response or a message. */
export function textOf(events: readonly StreamEvent[]): string {
  let text = "";
  for (const { data } of events) {
    if (data === "[DONE]") continue;
    const event = JSON.parse(data);
    const [choice] = event.choices ?? [];
    if (event.type === "response.output_text.delta") text += event.delta;
    else if (event.type === "content_block_delta") text += event.delta.text ?? event.delta.partial_json ?? "";
    else text += choice?.delta?.content ?? choice?.text ?? "";
  }
  return text;
}
