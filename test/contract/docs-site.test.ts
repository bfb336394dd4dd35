// The documentation site as browsers receive it.
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { stripTypeScriptTypes } from "node:module";
import { join } from "node:path";
import Fastify from "fastify";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { pagePolicy } from "../../control-plane/http/connections/secure-headers.ts";
import { createHttp } from "../../control-plane/http/core/create-http.ts";
import type { Endpoints } from "../../control-plane/http/core/endpoint.ts";
import { addDocsRoutes } from "../../control-plane/http/docs/site-routes.ts";
import { examplesOf } from "../../scripts/docs/examples.ts";
import type { Api } from "../../scripts/docs/openapi-types.ts";
import { fakePorts } from "../fakes/ports.ts";

const api = JSON.parse(readFileSync(join(import.meta.dirname, "../../docs/openapi.json"), "utf8")) as Api;
const operations = Object.entries(api.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => ({ path, method, operation })),
);
/** Of a page and all that it loads, the search index included; compressed. */
const maxBytes = 300_000;

let app: Awaited<ReturnType<typeof createHttp>>;
beforeAll(async () => {
  app = await createHttp(fakePorts().deps);
});
afterAll(() => app.close());

const get = (url: string, headers: Record<string, string> = {}) => app.inject({ method: "GET", url, headers });

/** Addresses of all pages, from the sidebar. */
async function pages(): Promise<readonly string[]> {
  const [, nav = ""] = /<nav[^>]*>(.*?)<\/nav>/s.exec((await get("/docs")).body) ?? [];
  return [...nav.matchAll(/href="([^"]+)"/g)].map(([, href = ""]) => href);
}

describe("a page of the documentation", () => {
  it("is served without a key, loads files of this server only and runs no inline script", async () => {
    const all = await pages();
    expect(all.length).toBeGreaterThan(30);
    for (const url of all) {
      const { statusCode, headers, body } = await get(url);
      expect([url, statusCode, headers["content-type"]]).toEqual([url, 200, "text/html; charset=utf-8"]);
      expect(headers["content-security-policy"]).toBe(pagePolicy);
      expect(body).not.toMatch(/<script(?![^>]* src="\/docs\/assets\/)|<link[^>]*href="(?!\/docs\/assets\/|data:,)/);
      expect(body).not.toMatch(/<[^>]* (on\w+|style)="/);
      expect(body).toMatch(/<nav[^>]*>.* aria-current="page"/s);
    }
  });

  it("is at most 300 KB with everything it loads", async () => {
    for (const url of await pages()) {
      const page = await get(url, { "accept-encoding": "gzip" });
      const assets = [...(await get(url)).body.matchAll(/"(\/docs\/assets\/[^"]+)"/g)].map(([, asset = ""]) => asset);
      expect(assets).toHaveLength(4);
      let size = page.rawPayload.length;
      for (const asset of assets) {
        const answer = await get(asset, { "accept-encoding": "gzip" });
        expect(answer.headers["cache-control"]).toBe("public, max-age=31536000, immutable");
        size += answer.rawPayload.length;
      }
      expect(size, url).toBeLessThan(maxBytes);
    }
  });

  it("is not sent again to a browser that has it", async () => {
    const { headers } = await get("/docs");
    expect(headers["cache-control"]).toBe("no-cache");
    const again = await get("/docs", { "if-none-match": String(headers["etag"]) });
    expect([again.statusCode, again.body]).toEqual([304, ""]);
    const packed = await get("/docs", { "if-none-match": String(headers["etag"]), "accept-encoding": "gzip" });
    expect([packed.statusCode, packed.headers["content-encoding"]]).toEqual([200, "gzip"]);
  });

  it.each([
    "/docs/nowhere",
    "/docs/../package.json",
    "/docs/%2e%2e/README",
    "/docs/assets/none.js",
    "/docs/index.html",
  ])("%s does not exist", async (url) => {
    const { statusCode, body } = await get(url);
    expect(statusCode).toBe(404);
    expect(body).not.toContain("dependencies");
  });

  it("names the command that builds it where it was not built", async () => {
    const bare = Fastify();
    const endpoints = {
      addRaw: ({ method, path }, handler) => bare.route({ method, url: path, handler }),
    } as Pick<Endpoints, "addRaw"> as Endpoints;
    addDocsRoutes(endpoints, join(import.meta.dirname, "nowhere"));
    const { statusCode, body } = await bare.inject("/docs/operations/hosts");
    expect(statusCode).toBe(503);
    expect(body).toContain("npm run build");
    await bare.close();
  });
});

describe("the API reference", () => {
  it("shows every operation once, with examples in three languages", async () => {
    const all = (await pages()).filter((url) => url.startsWith("/docs/reference/"));
    const bodies = await Promise.all(all.map(async (url) => (await get(url)).body));
    const shown = bodies.flatMap((body) =>
      [...body.matchAll(/<p class="call"><span[^>]*>(\w+)<\/span> <code>([^<]+)</g)].map(
        ([, m, path]) => `${m} ${path}`,
      ),
    );
    expect(shown.toSorted()).toEqual(
      operations.map(({ method, path }) => `${method.toUpperCase()} ${path}`).toSorted(),
    );
    for (const label of ["curl", "Python", "TypeScript"])
      expect(bodies.join("").split(`data-label="${label}"`)).toHaveLength(operations.length + 1);
  });

  const examples = operations.flatMap(({ method, path, operation }) => examplesOf(method, path, operation));
  const inLanguage = (name: string) => examples.filter(({ language }) => language === name).map(({ code }) => code);

  it("has curl lines that a shell accepts", () => {
    expect(() => execFileSync("bash", ["-n"], { input: inLanguage("bash").join("\n") })).not.toThrow();
  });

  it("has Python that compiles", () => {
    const program = "import ast, json, sys\nfor code in json.load(sys.stdin): ast.parse(code)";
    expect(() =>
      execFileSync("python3", ["-c", program], { input: JSON.stringify(inLanguage("python")) }),
    ).not.toThrow();
  });

  it("has TypeScript that parses", () => {
    for (const code of inLanguage("typescript")) expect(stripTypeScriptTypes(code)).toContain("fetch(");
  });

  it("sends the example of a body in each language", () => {
    const path = "/v1/compat/chat/completions";
    const operation = api.paths[path]?.["post"];
    const [curl, python, typescript] = operation ? examplesOf("post", path, operation) : [];
    expect(curl?.code).toContain(`curl -X POST "$STOKER_HOST${path}"`);
    expect(curl?.code).toContain('"role":"user"');
    expect(python?.code).toContain('"role": "user"');
    expect(typescript?.code).toContain('"role": "user"');
  });
});
