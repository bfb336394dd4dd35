// Server-sent events. Frames of one event-loop turn are written together; a client that does not read makes `send`
// return a promise; the headers leave with the first frame or keep-alive, so a refusal before it has its own status.
import type { ServerResponse } from "node:http";

const keepAliveMs = 15_000;

export class EventStream {
  readonly #response: ServerResponse;
  #buffer = "";
  #isScheduled = false;
  #drained: Promise<void> | undefined;
  #keepAlive: NodeJS.Timeout | undefined;

  constructor(response: ServerResponse) {
    this.#response = response;
    this.#armKeepAlive();
    response.once("close", () => clearTimeout(this.#keepAlive));
  }

  get hasStarted(): boolean {
    return this.#response.headersSent || this.#buffer !== "";
  }

  /** A promise while the client has not read what was written before. */
  send(data: string): Promise<void> | undefined {
    clearTimeout(this.#keepAlive);
    this.#buffer += `data: ${data}\n\n`;
    if (!this.#isScheduled) {
      this.#isScheduled = true;
      setImmediate(() => this.#flush());
    }
    return this.#drained;
  }

  end(): void {
    clearTimeout(this.#keepAlive);
    this.#flush();
    this.#response.end();
  }

  #flush(): void {
    this.#isScheduled = false;
    if (this.#buffer === "" || this.#response.destroyed) return;
    const text = this.#buffer;
    this.#buffer = "";
    if (!this.#write(text)) this.#drained ??= this.#drain();
  }

  #write(text: string): boolean {
    if (!this.#response.headersSent)
      this.#response.writeHead(200, {
        "content-type": "text/event-stream; charset=utf-8",
        "cache-control": "no-cache",
        "x-accel-buffering": "no",
      });
    return this.#response.write(text);
  }

  async #drain(): Promise<void> {
    await untilRead(this.#response);
    this.#drained = undefined;
  }

  #armKeepAlive(): void {
    this.#keepAlive = setTimeout(() => {
      this.#write(": keep-alive\n\n");
      this.#armKeepAlive();
    }, keepAliveMs);
  }
}

/** A client that takes nothing for so long is gone. */
const stallMs = 300_000;

/** After a `write` that returned false: resolves when the client has read on or is gone, by itself or for taking nothing. */
export function untilRead(response: ServerResponse): Promise<void> {
  // Its close event was already emitted.
  if (response.destroyed) return Promise.resolve();
  return new Promise((resolve) => {
    const stalled = setTimeout(() => response.destroy(), stallMs);
    const done = () => {
      clearTimeout(stalled);
      response.off("drain", done);
      response.off("close", done);
      resolve();
    };
    response.once("drain", done);
    response.once("close", done);
  });
}
