// What clients without a valid credential may ask for, by the address that a trusted proxy names.
import { once } from "node:events";
import { type AddressInfo, connect } from "node:net";
import { networkInterfaces } from "node:os";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { AddressLimits } from "../../control-plane/http/connections/address-limits.ts";
import { createHttp } from "../../control-plane/http/core/create-http.ts";
import { chat, type Edge, startEdge } from "../fakes/edge.ts";
import { apiKey, fakePorts } from "../fakes/ports.ts";

/** Ten at once, and one per second. */
const requestsPerSecond = 1;
const burst = 10;

let edge: Edge;
beforeAll(async () => {
  const addresses = new AddressLimits(
    { requestsPerSecond, connections: 5 },
    () => false,
    () => 0,
  );
  edge = await startEdge({ change: (deps) => ({ ...deps, addresses, trustedProxies: ["127.0.0.1"] }) });
});
afterAll(() => edge?.close());

const from = (address: string, headers: Record<string, string> = {}) => ({ "x-forwarded-for": address, ...headers });
const get = (path: string, headers: Record<string, string>) => fetch(edge.url + path, { headers, redirect: "manual" });

async function statuses(count: number, send: () => Promise<Response>): Promise<number[]> {
  const found: number[] = [];
  for (let n = 0; n < count; n++) found.push((await send()).status);
  return found;
}
const limitedAfter = (ok: number) => [...Array(burst).fill(ok), 429];

describe("an address without a valid credential", () => {
  it.each([
    ["a public endpoint", "192.0.2.1", "/readyz", {}, 200],
    ["a page", "192.0.2.2", "/openapi.json", {}, 200],
    ["a path that is not there", "192.0.2.3", "/nowhere", {}, 404],
    ["a path that cannot be read", "192.0.2.7", "/v1/models/%ff", {}, 400],
    ["an unknown key", "192.0.2.4", "/v1/me", { authorization: "Bearer stk_nobody" }, 401],
    ["an unknown session", "192.0.2.5", "/v1/me", { cookie: "session=nobody" }, 401],
    ["no key", "192.0.2.6", "/v1/me", {}, 401],
  ])("is refused with 429 after its share of %s", async (_, address, path, headers, status) => {
    expect(await statuses(burst + 1, () => get(path, from(address, headers)))).toEqual(limitedAfter(status));
    const refused = await get(path, from(address, headers));
    expect(Number(refused.headers.get("retry-after"))).toBeGreaterThan(0);
    expect(await refused.text()).toContain("Too many requests without a valid API key");
  });

  it("shares its limit only with its /64", async () => {
    expect(await statuses(burst + 1, () => get("/readyz", from("2001:db8::1")))).toEqual(limitedAfter(200));
    expect((await get("/readyz", from("2001:db8::ffff"))).status).toBe(429);
    expect((await get("/readyz", from("2001:db8:1::1"))).status).toBe(200);
  });

  it("cannot choose its address", async () => {
    let n = 0;
    const claimed = () => get("/readyz", from(`203.0.113.${n++}, 192.0.2.77`));
    expect(await statuses(burst + 1, claimed)).toEqual(limitedAfter(200));
  });

  it("does not keep a valid key from the same address out", async () => {
    await statuses(burst + 1, () => get("/readyz", from("192.0.2.8")));
    expect((await get("/v1/me", from("192.0.2.8", { authorization: `Bearer ${apiKey}` }))).status).toBe(200);
    const answer = await edge.post("/v1/compat/chat/completions", chat(), { headers: from("192.0.2.8") });
    expect(answer.status).toBe(200);
  });

  it("is refused before its body is read", async () => {
    const sign = () =>
      fetch(`${edge.url}/v1/auth/sign-in`, { method: "POST", headers: from("192.0.2.9"), body: "[".repeat(8_000) });
    expect(await statuses(burst + 1, sign)).toEqual(limitedAfter(422));
    expect(await withoutBody(edge, "/v1/auth/sign-in", "192.0.2.9")).toMatch(/^HTTP\/1.1 429 /);
  });
});

/** The first bytes of the response to a POST that announces a body and never sends it. */
async function withoutBody({ url }: Edge, path: string, address: string): Promise<string> {
  const socket = connect({ host: "127.0.0.1", port: Number(new URL(url).port) });
  socket.write(`POST ${path} HTTP/1.1\r\nhost: a\r\nx-forwarded-for: ${address}\r\ncontent-length: 9000\r\n\r\n`);
  const [first] = (await once(socket, "data")) as [Buffer];
  socket.destroy();
  return first.toString();
}

describe("a step of sign-in or sign-up", () => {
  let open: Edge;
  beforeAll(async () => {
    const addresses = new AddressLimits(
      { requestsPerSecond: 0, connections: 5 },
      () => false,
      () => 0,
    );
    open = await startEdge({ change: (deps) => ({ ...deps, addresses, trustedProxies: ["127.0.0.1"] }) });
  });
  afterAll(() => open?.close());

  it.each([
    ["/v1/auth/sign-up", "198.51.100.1"],
    ["/v1/auth/sign-in", "198.51.100.2"],
    ["/v1/auth/passkey", "198.51.100.3"],
    ["/v1/auth/second-factor", "198.51.100.4"],
    ["/login", "198.51.100.5"],
    ["/login/second-factor", "198.51.100.6"],
  ])("counts at %s and returns 429 above 60 from one address, before the body is read", async (path, address) => {
    for (let n = 0; n < 60; n++) {
      const answer = await fetch(open.url + path, { method: "POST", headers: from(address), body: "[" });
      expect(answer.status, `attempt ${n}`).not.toBe(429);
      await answer.arrayBuffer();
    }
    expect(await withoutBody(open, path, address)).toMatch(/^HTTP\/1.1 429 /);
  });
});

const own = Object.values(networkInterfaces())
  .flat()
  .find((one) => one?.family === "IPv4" && !one.internal)?.address;
if (own === undefined)
  process.stdout.write("NOT PROVEN: connections per address; this machine has no address but loopback\n");

describe.skipIf(own === undefined)("connections of an address", () => {
  it("are bounded without a valid credential; those with one do not count", async () => {
    const addresses = new AddressLimits({ requestsPerSecond: 1_000, connections: 5 }, () => false);
    const app = await createHttp({ ...fakePorts().deps, addresses });
    await app.listen({ host: "0.0.0.0", port: 0 });
    const { port } = app.server.address() as AddressInfo;
    const open = async (key?: string) => {
      const socket = connect({ host: own as string, port, localAddress: own as string });
      socket.on("error", () => {});
      const authorization = key ? `authorization: Bearer ${key}\r\n` : "";
      socket.write(`GET ${key ? "/v1/me" : "/healthz"} HTTP/1.1\r\nhost: a\r\n${authorization}\r\n`);
      const answered = await Promise.race([
        once(socket, "data").then(([data]) => String(data).slice(9, 12)),
        new Promise<string>((resolve) => socket.once("close", () => resolve("closed"))),
      ]);
      return { socket, answered };
    };
    const sockets = [];
    for (let n = 0; n < 8; n++) sockets.push(await open(apiKey));
    for (let n = 0; n < 6; n++) sockets.push(await open());
    expect(sockets.map(({ answered }) => answered)).toEqual([...Array(13).fill("200"), "closed"]);
    const gone = sockets[8]?.socket;
    gone?.destroy();
    await expect.poll(async () => (await open()).answered).toBe("200");
    for (const { socket } of sockets) socket.destroy();
    app.server.closeAllConnections();
    await app.close();
  });
});
