import type { IncomingMessage, ServerResponse } from "node:http";
import { Readable, Writable } from "node:stream";
import { afterEach, expect, it, vi } from "vitest";
import type { TaskCall } from "../../../../runtime/server/engine.ts";
import { speechRoute } from "../../../../runtime/tasks/speech/route.ts";
import type { Synthesiser } from "../../../../runtime/tasks/speech/synthesiser.ts";

const seconds = 10;
const speaker: Synthesiser = {
  rate: 24_000,
  presets: ["one"],
  defaultVoice: "one",
  languages: ["en"],
  languageOf: () => "en",
  canBlend: false,
  speak: async () => Float32Array.from({ length: seconds * 24_000 }, (_, i) => Math.sin(i / 20) / 2),
};

class Heard extends Writable {
  headersSent = false;
  bytes = 0;
  writeHead() {
    this.headersSent = true;
  }
  addTrailers() {}
  override _write(chunk: Buffer, _: string, done: () => void) {
    this.bytes += chunk.length;
    done();
  }
}

/** A request for ten seconds of sound. */
const speak = (response: Writable, signal: AbortSignal) => {
  const body = Buffer.from(JSON.stringify({ input: "Hello.", response_format: "pcm" }));
  return speechRoute(speaker).run({
    request: Object.assign(Readable.from([body]), { complete: true }) as unknown as IncomingMessage,
    response: response as unknown as ServerResponse,
    signal,
    usage: {} as TaskCall["usage"],
    model: "m",
    cacheScope: "",
    maxAudioMs: undefined,
    formerAdapters: new Set(),
    onFirstToken: () => {},
  });
};
afterEach(() => vi.useRealTimers());

it("is encoded in slices, so that a long sentence delays no other request", async () => {
  const response = new Heard();
  let turns = 0;
  let isDone = false;
  const others = () => {
    turns += 1;
    if (!isDone) setImmediate(others);
  };
  others();
  await speak(response, new AbortController().signal);
  isDone = true;
  expect(response.bytes).toBe(seconds * 24_000 * 2);
  expect(turns).toBeGreaterThanOrEqual(seconds * 5);
});

it("gives a client that takes nothing for five minutes up", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  const gone = new AbortController();
  const response = new Heard({ highWaterMark: 1 });
  const isFull = new Promise<void>((resolve) => {
    response._write = () => resolve();
  });
  response.once("close", () => gone.abort());
  const answer = speak(response, gone.signal);
  await isFull;
  // The sender waits for the client from the turn after.
  await new Promise(setImmediate);
  await vi.advanceTimersByTimeAsync(299_000);
  expect(response.destroyed).toBe(false);
  await vi.advanceTimersByTimeAsync(2_000);
  expect(response.destroyed).toBe(true);
  await answer;
});

it("ends with a client that hangs up between two slices", async () => {
  const gone = new AbortController();
  const response = new Heard();
  response._write = (_chunk, _, done) => {
    // Before the turn in which the next slice is coded.
    setImmediate(() => response.destroy());
    done();
  };
  response.once("close", () => gone.abort());
  await speak(response, gone.signal);
  expect(response.destroyed).toBe(true);
}, 20_000);
