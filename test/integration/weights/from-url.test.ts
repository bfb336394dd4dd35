// An image adapter from a customer's URL: real HTTP, to the addresses that the rules allow and no others.
import { createHash } from "node:crypto";
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pino } from "pino";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
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
    if (path === "/pieces") return sendPiece(request, response);
    return sendFile(request, response, file, faults);
  });
  store = open(true);
});
afterEach(async () => {
  await store.close();
  await host.close();
  rmSync(folder, { recursive: true, force: true });
});

const open = (allowsPrivateUrls: boolean, more: object = {}) =>
  createWeights({ cacheDir: join(folder, "cache"), allowsPrivateUrls, log: pino({ level: "silent" }), ...more });
const fetched = (url: string, more: object = {}) =>
  store.ensure({ url, format: "image_lora", ...more }, () => {}, new AbortController().signal);
/** Cut short, and each time there is more to come than one answer may hold together with what is here. */
function sendPiece({ headers }: IncomingMessage, response: ServerResponse): void {
  const from = Number(/^bytes=(\d+)-$/.exec(headers.range ?? "")?.[1] ?? 0);
  const length = from === 0 ? 10_000 : 2 * 1024 ** 3 - 1;
  const range = { "content-range": `bytes ${from}-${from + length - 1}/${from + length}` };
  response.writeHead(from === 0 ? 200 : 206, { etag: '"one"', "content-length": length, ...(from > 0 ? range : {}) });
  response.write(Buffer.alloc(5000));
  // What the network still holds when it is cut is lost.
  const written = () => expect(statSync(join(folder, "cache", "blobs", left()[0] ?? "")).size).toBe(from + 5000);
  vi.waitFor(written, { timeout: 20_000, interval: 20 }).then(
    () => response.destroy(),
    () => response.destroy(),
  );
}
const left = () => readdirSync(join(folder, "cache", "blobs"));
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
  await expect(fetched(`${host.url}/ink`, { sha256: other })).rejects.toMatchObject({
    code: "source_changed",
    retryable: false,
  });
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

it("the most is of the file in however many answers, and nothing stays of one that is refused", async () => {
  await expect(fetched(`${host.url}/pieces`)).rejects.toMatchObject({ code: "source_refused", retryable: false });
  expect(host.requests.map(({ range }) => range)).toEqual([undefined, "bytes=5000-"]);
  expect(left()).toEqual([]);
});

it("the cache is asked for room before a byte is written, and for the most where no length is told", async () => {
  await store.close();
  store = open(true, { quotaBytes: file.length - 1 });
  await expect(fetched(`${host.url}/ink`)).rejects.toMatchObject({ code: "hub_disk_full" });
  await store.close();
  store = open(true, { quotaBytes: 2 * file.length });
  host.faults.endless = true;
  await expect(fetched(`${host.url}/ink`)).rejects.toMatchObject({ code: "hub_disk_full" });
  expect(left()).toEqual([]);
  delete host.faults.endless;
  expect((await fetched(`${host.url}/ink`)).commit).toBe(sha256);
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
  for (const url of [`https://127.0.0.1:${port}/ink`, `http://127.0.0.1:${port}/ink`])
    await expect(fetched(url)).rejects.toMatchObject({ code: "source_refused", retryable: false });
  const refused = { code: "source_refused", message: expect.stringMatching(/not a public address/) };
  for (const url of ["https://127.0.0.1/ink", "https://[::1]/ink", "https://localhost/ink"])
    await expect(fetched(url)).rejects.toMatchObject(refused);
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
