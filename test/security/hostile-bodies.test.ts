// Requests that are cheap to send and expensive to read: each is refused or served, and delays nobody. `npm run bench -- hostile`
// measures the delay on a quiet machine against its limit of 50 ms; here the processor time of the event loop is limited.
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { connect } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { fileOf } from "../../control-plane/http/inference/native/media.ts";
import { readDataAddress } from "../../runtime/server/image-part.ts";
import { hostileRequests } from "../fakes/hostile-requests.ts";
import { apiKey } from "../fakes/ports.ts";

const maxBusyMs = 2_000;

let child: ChildProcess;
let url: string;
beforeAll(async () => {
  child = fork(join(import.meta.dirname, "../fakes/edge-process.ts"));
  [{ url }] = (await once(child, "message")) as [{ url: string }];
});
afterAll(async () => {
  child.disconnect();
  await once(child, "exit");
});

/** Processor time of the edge's event loop since the previous call. */
async function busyMs(): Promise<number> {
  const told = once(child, "message") as Promise<[{ busyMs: number }]>;
  child.send("busy?");
  return (await told)[0].busyMs;
}

describe("a hostile body", () => {
  it.each(hostileRequests("org/model"))("is refused or served in time: $name", async (one) => {
    await busyMs();
    const status = await fetch(url + one.path, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        ...(one.isKeyed ? { authorization: `Bearer ${apiKey}` } : {}),
        ...one.headers,
      },
      body: new Uint8Array(one.body),
    }).then(
      (answer) => answer.status,
      // The connection of a body that is far above its limit is closed while it is sent.
      (error) => (error.cause?.code === "UND_ERR_SOCKET" || /EPIPE|ECONNRESET/.test(error.cause?.code) ? 413 : 0),
    );
    expect(one.statuses).toContain(status);
    expect(await busyMs()).toBeLessThan(maxBusyMs);
    expect((await fetch(`${url}/healthz`)).status).toBe(200);
  });
});

describe("a connection", () => {
  it("is closed when more than 8 requests wait on it", async () => {
    await busyMs();
    const { host } = new URL(url);
    const socket = connect({ host: "127.0.0.1", port: Number(host.split(":")[1]) });
    let text = "";
    socket.setEncoding("latin1").on("data", (part) => {
      text += part;
    });
    socket.on("error", () => {});
    socket.write(`GET /readyz HTTP/1.1\r\nhost: a\r\n\r\n`.repeat(20_000));
    await new Promise((resolve) => socket.once("close", resolve));
    expect(text.split("HTTP/1.1 ").length - 1).toBeLessThan(20);
    expect(await busyMs()).toBeLessThan(maxBusyMs);
  });

  it("carries at most 8 requests at once", async () => {
    const { host } = new URL(url);
    const socket = connect({ host: "127.0.0.1", port: Number(host.split(":")[1]) });
    const close = "GET /readyz HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
    socket.write("GET /readyz HTTP/1.1\r\nhost: a\r\n\r\n".repeat(7) + close);
    let text = "";
    for await (const part of socket.setEncoding("latin1")) text += part;
    expect(text.split("HTTP/1.1 200").length - 1).toBe(8);
  });
});

describe("a data URI without a payload", () => {
  // From bytes: a text that is joined from repetitions would be copied first, within the time that is measured.
  const long = (text: string, end = "") =>
    Buffer.from(`data:${text.repeat(4e7 / text.length)}${end}`).toString("latin1");
  it.each([
    ["parameters without end", long(";a")],
    ["a type without end", long("image/")],
    ["a comma too late", long("a", ",;base64,AA==")],
  ])("is refused by its head alone, at the gateway and at the model server: %s", async (_name, uri) => {
    const started = performance.now();
    expect(() => fileOf(uri, "image")).toThrow(/must be a file or a data URI/);
    expect(() => readDataAddress(uri, "image")).toThrow(/is no data: address/);
    expect(performance.now() - started).toBeLessThan(100);
  });
});

describe("a field named __proto__", () => {
  it("gives nothing to other objects", async () => {
    const answer = await fetch(`${url}/v1/compat/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${apiKey}`, "content-type": "application/json" },
      body: '{"__proto__":{"isAdmin":true,"stream":true},"model":"org/model","messages":[{"role":"user","content":"Hello"}]}',
    });
    expect([answer.status, answer.headers.get("content-type")]).toEqual([200, expect.stringContaining("json")]);
    expect(({} as Record<string, unknown>)["isAdmin"]).toBeUndefined();
  });
});
