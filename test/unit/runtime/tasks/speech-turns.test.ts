import type { IncomingMessage, ServerResponse } from "node:http";
import { Readable, Writable } from "node:stream";
import { expect, it } from "vitest";
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

it("is coded in slices, so that a long sentence keeps nobody waiting", async () => {
  const response = new Heard();
  const request = Object.assign(
    Readable.from([Buffer.from(JSON.stringify({ input: "Hello.", response_format: "pcm" }))]),
    {
      complete: true,
    },
  );
  let turns = 0;
  let isDone = false;
  const others = () => {
    turns += 1;
    if (!isDone) setImmediate(others);
  };
  others();
  await speechRoute(speaker).run({
    request: request as unknown as IncomingMessage,
    response: response as unknown as ServerResponse,
    signal: new AbortController().signal,
    usage: {} as TaskCall["usage"],
    model: "m",
    formerAdapters: new Set(),
    onFirstToken: () => {},
  });
  isDone = true;
  expect(response.bytes).toBe(seconds * 24_000 * 2);
  expect(turns).toBeGreaterThanOrEqual(seconds * 5);
});
