// Pages of other origins: what a browser allows them, for inference and for every other route.

import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { browserPath, goTo, startBrowser } from "../fakes/browser.ts";
import { chat, type Edge, startEdge } from "../fakes/edge.ts";
import { apiKey } from "../fakes/ports.ts";

const app = "https://app.example.com";
const chatPath = "/v1/openai/chat/completions";
let edge: Edge;
let closed: Edge;
/** Serves an empty page, as an application on another origin does. */
let page: Server;
let pageOrigin: string;

beforeAll(async () => {
  page = createServer((_req, res) => res.writeHead(200, { "content-type": "text/html" }).end("<title>app</title>"));
  page.listen(0, "127.0.0.1");
  await once(page, "listening");
  pageOrigin = `http://127.0.0.1:${(page.address() as AddressInfo).port}`;
  edge = await startEdge({ change: (deps) => ({ ...deps, corsOrigins: [app, pageOrigin] }) });
  closed = await startEdge();
});
afterAll(async () => {
  page?.close();
  await Promise.all([edge?.close(), closed?.close()]);
});

const preflight = (url: string, origin: string) =>
  fetch(url, {
    method: "OPTIONS",
    headers: {
      origin,
      "access-control-request-method": "POST",
      "access-control-request-headers": "authorization,content-type,x-stainless-lang",
    },
  });

describe("a preflight", () => {
  it.each([chatPath, "/v1/models", "/v1/api-tokens"])("is answered for an allowed origin: %s", async (path) => {
    const { status, headers } = await preflight(edge.url + path, app);
    expect(status).toBe(204);
    expect(headers.get("access-control-allow-origin")).toBe(app);
    expect(headers.get("access-control-allow-methods")).toContain("DELETE");
    expect(headers.get("access-control-allow-headers")).toBe("authorization,content-type,x-stainless-lang");
    expect(headers.get("access-control-max-age")).toBe("7200");
    expect(headers.get("access-control-allow-credentials")).toBeNull();
  });

  it("has the headers of every response", async () => {
    const { headers } = await preflight(edge.url + chatPath, app);
    expect(headers.get("x-content-type-options")).toBe("nosniff");
    expect(headers.get("content-security-policy")).toContain("frame-ancestors 'none'");
    expect(headers.get("cache-control")).toBe("no-store");
  });

  it.each(["https://other.example.com", "https://app.example.com.evil.example", "null"])(
    "allows nothing to another origin: %s",
    async (origin) => {
      const { status, headers } = await preflight(edge.url + chatPath, origin);
      expect(status).toBe(404);
      expect(headers.get("access-control-allow-origin")).toBeNull();
      expect(headers.get("vary")).toBe("origin");
    },
  );

  it("allows nothing by default", async () => {
    const { headers } = await preflight(closed.url + chatPath, app);
    expect([...headers.keys()].filter((name) => name.startsWith("access-control"))).toEqual([]);
  });
});

describe("a response", () => {
  it.each([
    ["whole", chat(), 200],
    ["streamed", chat({ stream: true }), 200],
    ["refused", chat({ max_tokens: 0 }), 422],
  ] as const)("is readable for an allowed origin with its other headers: %s", async (_name, body, status) => {
    const response = await edge.post(chatPath, body, { headers: { origin: app } });
    expect(response.status).toBe(status);
    expect(response.headers.get("access-control-allow-origin")).toBe(app);
    expect(response.headers.get("access-control-expose-headers")).toBe("*");
    expect(response.headers.get("x-content-type-options")).toBe("nosniff");
    expect(response.headers.get("x-request-id")).not.toBeNull();
    await response.text();
  });
});

describe.skipIf(browserPath === undefined)("a page in a browser", () => {
  it("calls inference and reads rate limits from an allowed origin, and is refused by a closed installation", async () => {
    await using browser = await startBrowser();
    const tab = await browser.newPage();
    await goTo(tab, pageOrigin);
    const call = (url: string) =>
      tab.evaluate(
        async ([at, key, body]) => {
          try {
            const response = await fetch(at as string, {
              method: "POST",
              headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
              body: body as string,
            });
            return [response.status, response.headers.get("x-ratelimit-limit-requests") !== null];
          } catch (error) {
            return (error as Error).name;
          }
        },
        [url, apiKey, JSON.stringify(chat())],
      );
    expect(await call(edge.url + chatPath)).toEqual([200, true]);
    expect(await call(closed.url + chatPath)).toBe("TypeError");
  });
});
