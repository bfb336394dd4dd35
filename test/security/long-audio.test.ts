// One account sends six two-hour recordings at once. The others must still be served: by the gate in front of an engine, and by
// the engine itself, which hears recordings in turns by account.
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import type { UnitCounts } from "../../proto/money.ts";
import { call, type DataPath, startDataPath } from "../fakes/data-path.ts";

const hours = (count: number) => count * 3_600_000;

describe("long audio at the gate", () => {
  let path: DataPath;
  /** Requests that the engine holds, by the text of their body. */
  const held = new Map<string, { readonly request: IncomingMessage; readonly response: ServerResponse }>();
  const engine = createServer((request, response) => {
    let body = "";
    request.on("data", (part) => {
      body += part;
    });
    request.on("end", () => {
      if (request.method === "POST") held.set(body, { request, response });
      else response.end("{}");
    });
  });
  beforeAll(async () => {
    await new Promise<void>((resolve) => engine.listen(0, "127.0.0.1", resolve));
    path = await startDataPath(`http://127.0.0.1:${(engine.address() as AddressInfo).port}`);
    path.target({ maxBatchSize: 1 });
  });
  afterAll(async () => {
    await path?.close();
    engine.closeAllConnections();
    engine.close();
  });

  const send = (account: string, name: string, audioMs: number, maxMs = audioMs) => {
    const units: UnitCounts = { characters: 0, audioMs, images: 0, imagePixelSteps: 0, items: 0 };
    return call(path.port, {
      ticket: {
        account,
        stream: false,
        units: { asked: units, most: { ...units, audioMs: maxMs }, rates: ["0", "1", "0", "0"] },
      },
      path: "/i/instance00000001/v1/audio/transcriptions",
      raw: { contentType: "multipart/form-data; boundary=x", body: Buffer.from(name) },
    });
  };
  const answer = (name: string) => {
    const { response } = held.get(name) as { response: ServerResponse };
    held.delete(name);
    response.writeHead(200, { "content-type": "application/json", "x-stoker-units": "audio_ms=1000" });
    response.end('{"text":""}');
  };
  const atEngine = () => [...held.keys()].toSorted();

  it("holds two of six two-hour files of one account in the engine, and lets others in beside them", async () => {
    const flood = Array.from({ length: 6 }, (_, i) => send("u:a", `a${i}`, hours(2)));
    await vi.waitFor(() => expect(atEngine()).toHaveLength(2));
    await vi.waitFor(() => expect(path.ingress.stats("instance00000001" as never).waiting).toBe(4));
    // The only place of the batch is free for a short clip, and another account's long file does not wait behind the six.
    const clip = send("u:b", "clip", 3_000);
    const long = send("u:b", "long", hours(1));
    await vi.waitFor(() => expect(atEngine()).toEqual(expect.arrayContaining(["clip", "long"])));
    expect(atEngine()).toHaveLength(4);
    expect(held.get("clip")?.request.headers["x-stoker-max-audio-ms"]).toBe("3000");
    const tenants = atEngine().map((name) => held.get(name)?.request.headers["x-stoker-tenant"]);
    expect(new Set(tenants).size).toBe(2);
    answer("clip");
    answer("long");
    expect((await Promise.all([clip, long])).map(({ status }) => status)).toEqual([200, 200]);
    // The rest follows two at a time.
    for (let left = 6; left > 0; left--) {
      await vi.waitFor(() => expect(atEngine()).toHaveLength(Math.min(2, left)));
      answer(atEngine()[0] as string);
    }
    expect((await Promise.all(flood)).every(({ status }) => status === 200)).toBe(true);
  });

  it("judges a file by what it may hold, not by what its head says", async () => {
    const short = send("u:a", "short", 3_000);
    await vi.waitFor(() => expect(atEngine()).toEqual(["short"]));
    // A head of three seconds on a file of many bytes: a place among the long ones.
    const liar = send("u:a", "liar", 3_000, hours(1));
    await vi.waitFor(() => expect(atEngine()).toEqual(["liar", "short"]));
    expect(held.get("liar")?.request.headers["x-stoker-max-audio-ms"]).toBe(String(hours(1)));
    answer("liar");
    answer("short");
    await Promise.all([short, liar]);
  });
});
