// What a browser and a proxy are told by every response, and which session cookie counts.
import { once } from "node:events";
import { connect } from "node:net";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { pagePolicy } from "../../control-plane/http/connections/secure-headers.ts";
import { buildDocs } from "../../scripts/build-docs.ts";
import { browserPath, goTo, startBrowser } from "../fakes/browser.ts";
import { chat, type Edge, startEdge } from "../fakes/edge.ts";
import { adasPassword, apiKey } from "../fakes/ports.ts";

let edge: Edge;
/** Behind a proxy on this machine that ends TLS. */
let proxied: Edge;
beforeAll(async () => {
  await buildDocs();
  edge = await startEdge();
  proxied = await startEdge({ change: (deps) => ({ ...deps, trustedProxies: ["127.0.0.1"] }) });
});
afterAll(() => Promise.all([edge?.close(), proxied?.close()]));

const withKey = { authorization: `Bearer ${apiKey}` };
const overTls = { "x-forwarded-proto": "https" };

/** The response's bytes as text. */
async function raw(url: string, request: string): Promise<string> {
  const socket = connect({ host: "127.0.0.1", port: Number(new URL(url).port) });
  await once(socket, "connect");
  socket.write(request);
  let text = "";
  for await (const part of socket.setEncoding("latin1")) text += part;
  return text;
}

describe("every response", () => {
  const paths = [
    "/v1/me",
    "/v1/models",
    "/payment/usage",
    "/v1/api-tokens",
    "/healthz",
    "/nowhere",
    "/v1/models/%ff",
    "/login",
    "/console",
  ];

  it.each([...paths, "/openapi.json", "/"])("has a type and forbids framing and storing: %s", async (path) => {
    const { headers } = await fetch(edge.url + path, { headers: withKey, redirect: "manual" });
    expect(headers.get("x-content-type-options")).toBe("nosniff");
    expect(headers.get("content-security-policy")).toContain("frame-ancestors 'none'");
    expect(headers.get("content-security-policy")).not.toMatch(/script-src[^;]*unsafe/);
    expect(headers.get("cache-control")).toBe("no-store");
    expect(headers.get("strict-transport-security")).toBeNull();
  });

  it.each(["/docs", "/docs/operations/hosts", "/docs/nowhere"])(
    "is checked by browsers each time: %s",
    async (path) => {
      const { headers } = await fetch(edge.url + path);
      expect(headers.get("x-content-type-options")).toBe("nosniff");
      expect(headers.get("x-frame-options")).toBe("DENY");
      expect(headers.get("content-security-policy")).toBe(pagePolicy);
      expect(headers.get("cache-control")).toBe("no-cache");
    },
  );

  it("has them also where a name is longer than the router reads", async () => {
    const { status, headers } = await fetch(`${edge.url}/v1/models/${"m".repeat(4_000)}`, { headers: withKey });
    expect([status, headers.get("x-content-type-options"), headers.get("cache-control")]).toEqual([
      414,
      "nosniff",
      "no-store",
    ]);
  });

  it("has the same headers for inference: whole, streamed and refused, by both ways", async () => {
    for (const body of [chat(), chat(), chat({ stream: true }), chat({ max_tokens: 0 }), chat({ model: "no/such" })]) {
      const { headers } = await edge.post("/v1/compat/chat/completions", body);
      expect(headers.get("x-content-type-options")).toBe("nosniff");
      expect(headers.get("cache-control")).toBe("no-store");
    }
  });

  it("requires TLS of browsers once it was sent over TLS", async () => {
    const { headers } = await fetch(`${proxied.url}/login`, { headers: overTls });
    expect(headers.get("strict-transport-security")).toMatch(/^max-age=\d{8}/);
    expect((await fetch(`${proxied.url}/login`)).headers.get("strict-transport-security")).toBeNull();
    // A client that no proxy speaks for cannot claim TLS.
    expect(
      (await fetch(`${edge.url}/login`, { headers: overTls })).headers.get("strict-transport-security"),
    ).toBeNull();
  });
});

describe("a request with several Host headers", () => {
  it.each(["/healthz", "/v1/me"])("is refused with 400: %s", async (path) => {
    for (const hosts of ["host: a\r\nhost: b", "Host: a\r\nhOST: a"]) {
      const text = await raw(edge.url, `GET ${path} HTTP/1.1\r\n${hosts}\r\n\r\n`);
      expect(text).toMatch(/^HTTP\/1.1 400 /);
      expect(text).toContain("host_repeated");
    }
  });
});

describe("the session cookie", () => {
  const signIn = (at: Edge, headers: Record<string, string>) =>
    fetch(`${at.url}/v1/auth/sign-in`, {
      method: "POST",
      headers: { "content-type": "application/json", ...headers },
      body: JSON.stringify({ email: "ada@example.com", password: adasPassword }),
    });
  const cookieOf = async (at: Edge, headers: Record<string, string>) => {
    const answer = await signIn(at, headers);
    expect(answer.status, await answer.clone().text()).toBe(200);
    return String(answer.headers.get("set-cookie"));
  };
  const statusWith = async (at: Edge, headers: Record<string, string>) =>
    (await fetch(`${at.url}/v1/auth/session`, { headers })).status;

  it("is bound to this host over TLS, and counts under no other name there", async () => {
    const cookie = await cookieOf(proxied, overTls);
    expect(cookie).toMatch(/^__Host-session=[^;]+;/);
    for (const attribute of ["Path=/", "HttpOnly", "Secure", "SameSite=Lax"]) expect(cookie).toContain(attribute);
    expect(cookie).not.toContain("Domain");
    const value = /=([^;]+)/.exec(cookie)?.[1] ?? "";
    expect(await statusWith(proxied, { ...overTls, cookie: `__Host-session=${value}` })).toBe(200);
    expect(await statusWith(proxied, { ...overTls, cookie: `session=${value}` })).toBe(401);
    // A cookie that somebody else has set beside it changes nothing.
    expect(await statusWith(proxied, { ...overTls, cookie: `session=foreign; __Host-session=${value}` })).toBe(200);
  });

  it("has its plain name without TLS, where browsers would refuse the other one", async () => {
    const cookie = await cookieOf(edge, {});
    expect(cookie).toMatch(/^session=[^;]+;/);
    expect(cookie).not.toContain("Secure");
    const value = /=([^;]+)/.exec(cookie)?.[1] ?? "";
    expect(await statusWith(edge, { cookie: `session=${value}` })).toBe(200);
    expect(await statusWith(edge, { cookie: `__Host-session=${value}` })).toBe(401);
  });
});

describe.skipIf(browserPath === undefined)("in a browser", () => {
  it("runs the documentation and the console without a policy violation", async () => {
    const browser = await startBrowser();
    try {
      const page = await browser.newPage();
      const broken: string[] = [];
      page.on("console", (message) => {
        if (message.type() === "error" && /Content Security Policy|Refused to|MIME/.test(message.text()))
          broken.push(message.text());
      });
      page.on("pageerror", (error) => broken.push(String(error)));
      await goTo(page, `${edge.url}/docs/reference/inference`);
      await expect.poll(() => page.locator(".operation [role=tab]").count()).toBeGreaterThan(50);
      expect(await page.evaluate(() => getComputedStyle(document.body).margin)).toBe("0px");
      await page.getByRole("combobox").fill("cordon");
      await page.locator("#results [role=option] a").first().click();
      await expect.poll(() => page.url()).toMatch(/\/docs\/operations\//);
      await goTo(page, `${edge.url}/console`);
      await expect.poll(() => page.locator("h1").count()).toBeGreaterThan(0);
      expect(broken).toEqual([]);
    } finally {
      await browser.close();
    }
  });
});
