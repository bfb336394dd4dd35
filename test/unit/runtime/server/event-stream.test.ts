import { EventEmitter } from "node:events";
import type { ServerResponse } from "node:http";
import { afterEach, describe, expect, it, vi } from "vitest";
import { EventStream } from "../../../../runtime/server/event-stream.ts";

/** What an EventStream needs of a response; `isFull` is a client that does not read. */
class Response extends EventEmitter {
  readonly writes: string[] = [];
  isFull = false;
  isEnded = false;
  destroyed = false;
  headersSent = false;
  writeHead(): void {
    this.headersSent = true;
  }
  write(text: string): boolean {
    this.writes.push(text);
    return !this.isFull;
  }
  end(): void {
    this.isEnded = true;
    this.emit("close");
  }
  destroy(): void {
    this.destroyed = true;
    this.emit("close");
  }
}

const open = () => {
  const response = new Response();
  return { response, stream: new EventStream(response as unknown as ServerResponse) };
};
const turn = () => new Promise(setImmediate);
afterEach(() => vi.useRealTimers());

describe("a stream of events", () => {
  it("writes the frames of one event-loop turn together and the headers with the first", async () => {
    const { response, stream } = open();
    void stream.send("1");
    void stream.send("2");
    expect(response.headersSent).toBe(false);
    await turn();
    void stream.send("3");
    stream.end();
    expect(response.writes).toEqual(["data: 1\n\ndata: 2\n\n", "data: 3\n\n"]);
    expect(response.isEnded).toBe(true);
  });

  it("holds its sender back while the client does not read, and lets go when it does or leaves", async () => {
    for (const event of ["drain", "close"]) {
      const { response, stream } = open();
      response.isFull = true;
      expect(stream.send("1")).toBeUndefined();
      await turn();
      const wait = stream.send("2");
      expect(wait).toBeInstanceOf(Promise);
      response.isFull = false;
      response.emit(event);
      await wait;
      await turn();
      expect(stream.send("3")).toBeUndefined();
      response.emit("close");
    }
  });

  it("gives a client that takes nothing for five minutes up", async () => {
    vi.useFakeTimers();
    const { response, stream } = open();
    response.isFull = true;
    void stream.send("1");
    await vi.advanceTimersByTimeAsync(299_000);
    expect(response.destroyed).toBe(false);
    await vi.advanceTimersByTimeAsync(2_000);
    expect(response.destroyed).toBe(true);
  });

  it("keeps the connection alive until the first frame only", async () => {
    vi.useFakeTimers();
    const { response, stream } = open();
    await vi.advanceTimersByTimeAsync(31_000);
    expect(response.writes).toEqual([": keep-alive\n\n", ": keep-alive\n\n"]);
    void stream.send("1");
    await vi.advanceTimersByTimeAsync(60_000);
    expect(response.writes).toHaveLength(3);
    response.emit("close");
  });
});
