// An image adapter from a customer's URL: real HTTP, to the addresses that the rules allow and no others.
import { createHash } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pino } from "pino";
import { afterEach, beforeEach, expect, it } from "vitest";
import { createWeights, type WeightsStore } from "../../../agent/weights/fetch-weights.ts";
import { type FileServer, sendFile, startFileServer } from "../../fakes/file-server.ts";
import { imageAdapter } from "../../fakes/image-adapter.ts";

const file = imageAdapter("kohya");
const sha256 = createHash("sha256").update(file).digest("hex");
let folder: string;
let host: FileServer;
let store: WeightsStore;

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "stoker-url-"));
  host = await startFileServer((faults) => (request, response, path) => {
    if (path === "/gone") return void response.writeHead(404).end();
    if (path === "/locked" && request.headers.authorization !== "Bearer right")
      return void response.writeHead(401).end();
    if (path === "/there") return void response.writeHead(302, { location: "/ink" }).end();
    if (path === "/inside") return void response.writeHead(302, { location: "http://169.254.169.254/a" }).end();
    if (path === "/circle") return void response.writeHead(302, { location: "/circle" }).end();
    if (path === "/large") return void response.writeHead(200, { "content-length": String(3 * 1024 ** 3) }).write("x");
    return sendFile(request, response, file, faults);
  });
  store = open(true);
});
afterEach(async () => {
  await store.close();
  await host.close();
  rmSync(folder, { recursive: true, force: true });
});

const open = (allowsPrivateUrls: boolean) =>
  createWeights({ cacheDir: join(folder, "cache"), allowsPrivateUrls, log: pino({ level: "silent" }) });
const fetched = (url: string, more: object = {}) =>
  store.ensure({ url, format: "image_lora", ...more }, () => {}, new AbortController().signal);
const asked = () => host.requests.map(({ path }) => path);

it("is fetched once, checked by the digest that was recorded, and found again by a later agent without a question", async () => {
  const { modelPath, commit } = await fetched(`${host.url}/ink?signature=1`);
  expect(readFileSync(modelPath).equals(file)).toBe(true);
  expect(commit).toBe(sha256);
  expect(modelPath).toMatch(/adapter_model\.safetensors$/);
  await store.close();
  store = open(true);
  expect(await fetched(`${host.url}/ink?signature=1`)).toEqual({ modelPath, commit });
  // As the control plane tells it once one host has said what it is.
  expect(await fetched(`${host.url}/ink?signature=1`, { sha256 })).toMatchObject({ commit: sha256 });
  expect(asked()).toEqual(["/ink"]);
});

it("is refused where other bytes come than those another host got", async () => {
  const other = "0".repeat(64);
  await expect(fetched(`${host.url}/ink`, { sha256: other })).rejects.toMatchObject({ code: "hub_checksum_mismatch" });
});

it("is fetched on after a cut, with the token for its host and over a redirect there", async () => {
  host.faults.cut = { afterBytes: 1000, times: 1 };
  expect((await fetched(`${host.url}/there`)).commit).toBe(sha256);
  await expect(fetched(`${host.url}/locked`)).rejects.toMatchObject({ code: "source_denied", retryable: false });
  expect((await fetched(`${host.url}/locked`, { token: "right" })).commit).toBe(sha256);
});

it.each([
  ["/gone", "source_not_found", /no file at the adapter's URL/],
  ["/inside", "source_refused", /not a public address/],
  ["/circle", "source_refused", /redirects again and again/],
  ["/large", "source_refused", /more than 2147483648 bytes/],
])("%s is refused for good with the reason", async (path, code, message) => {
  const refused = { code, retryable: false, message: expect.stringMatching(message) };
  await expect(fetched(`${host.url}${path}`)).rejects.toMatchObject(refused);
});

it("a host that fails may be asked again later", async () => {
  host.faults.refuse = { status: 503, times: 1 };
  await expect(fetched(`${host.url}/ink`)).rejects.toMatchObject({ code: "source_failed", retryable: true });
  expect((await fetched(`${host.url}/ink`)).commit).toBe(sha256);
});

it("no private address is spoken to unless the operator allows it, whatever a name resolves to", async () => {
  await store.close();
  store = open(false);
  const { port } = new URL(host.url);
  for (const url of [`https://127.0.0.1:${port}/ink`, `http://127.0.0.1:${port}/ink`, "https://localhost/ink"])
    await expect(fetched(url)).rejects.toMatchObject({ code: "source_refused", retryable: false });
  expect(asked()).toEqual([]);
});

it("its token stays with the first host", async () => {
  const seen: (string | undefined)[] = [];
  const other: Server = createServer((request, response) => {
    seen.push(request.headers.authorization);
    response.writeHead(302, { location: `${host.url}/ink` }).end();
  });
  await new Promise<void>((resolve) => other.listen(0, "127.0.0.1", resolve));
  try {
    const url = `http://127.0.0.1:${(other.address() as AddressInfo).port}/`;
    expect((await fetched(url, { token: "mine" })).commit).toBe(sha256);
    expect(seen).toEqual(["Bearer mine"]);
    expect(host.requests.map(({ authorization }) => authorization)).toEqual([undefined]);
  } finally {
    other.closeAllConnections();
    await new Promise((resolve) => other.close(resolve));
  }
});
