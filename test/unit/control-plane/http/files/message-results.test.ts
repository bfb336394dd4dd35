import { once } from "node:events";
import { Readable } from "node:stream";
import { describe, expect, it } from "vitest";
import { messageResults } from "../../../../../control-plane/http/files/message-results.ts";

const line = (id: string, response: string, error = "null") =>
  `{"id":"batch_req_1","custom_id":"${id}","response":${response},"error":${error}}\n`;
const answered = line("one", '{"status_code":200,"request_id":"r","body":{"tokens":9007199254740993}}');
const expired = line("two", "null", '{"code":"batch_expired","message":"Too late."}');

describe("the results of a message batch", () => {
  it("are the lines of all files, with the numbers of messages unchanged", async () => {
    const results = await messageResults([answered, expired], async (text) => Readable.from([Buffer.from(text)]));
    let text = "";
    for await (const part of results) text += part;
    expect(text.trim().split("\n")).toEqual([
      '{"custom_id":"one","result":{"type":"succeeded","message":{"tokens":9007199254740993}}}',
      '{"custom_id":"two","result":{"type":"expired"}}',
    ]);
  });

  it("say which request has a result that is too long", async () => {
    const long = line("long", `{"status_code":200,"request_id":"r","body":{"text":"${"a".repeat(9_000)}"}}`);
    // In chunks, and as one.
    for (const chunks of [long.match(/.{1,100}/gs) ?? [], [long]]) {
      const body = Readable.from([...chunks, answered].map((part) => Buffer.from(part)));
      const results = await messageResults([body], async (one) => one, 8_000);
      let text = "";
      for await (const part of results) text += part;
      const [first, second] = text.trim().split("\n");
      expect(JSON.parse(first ?? "")).toMatchObject({
        custom_id: "long",
        result: {
          type: "errored",
          error: { error: { type: "api_error", message: expect.stringContaining("larger than") } },
        },
      });
      expect(second).toContain('"custom_id":"one"');
    }
  });

  it("close their files when one of them is missing", async () => {
    const first = Readable.from([Buffer.from(answered)]);
    const missing = new Error("missing");
    const opened = messageResults([first, undefined], async (body) => body ?? Promise.reject(missing));
    await expect(opened).rejects.toBe(missing);
    expect(first.destroyed).toBe(true);
  });

  it("close their files when the client disconnects before the first byte", async () => {
    const bodies = [answered, expired].map((text) => Readable.from([Buffer.from(text)]));
    const results = await messageResults(bodies, async (body) => body);
    results.destroy();
    await once(results, "close");
    expect(bodies.map(({ destroyed }) => destroyed)).toEqual([true, true]);
  });
});
