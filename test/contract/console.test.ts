// The console as a browser is handed it: one page, its files, and nothing that another server or an injected text could add.
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createHttp } from "../../control-plane/http/core/create-http.ts";
import { fakePorts } from "../fakes/ports.ts";

const maxScriptBytes = 300_000;
const sources = join(import.meta.dirname, "../../console");

let app: Awaited<ReturnType<typeof createHttp>>;
beforeAll(async () => {
  app = await createHttp(fakePorts().deps);
});
afterAll(() => app.close());

const get = (url: string) => app.inject({ method: "GET", url });

/** The addresses of everything the page loads, imports of imports included. */
async function loaded(): Promise<Map<string, { type: string; bytes: number; text: string }>> {
  const page = (await get("/console")).body;
  const found = new Map<string, { type: string; bytes: number; text: string }>();
  const load = async (url: string): Promise<void> => {
    if (found.has(url)) return;
    const answer = await get(url);
    expect(answer.statusCode, url).toBe(200);
    expect(answer.headers["cache-control"], url).toBe("public, max-age=31536000, immutable");
    found.set(url, {
      type: String(answer.headers["content-type"]),
      bytes: answer.rawPayload.length,
      text: answer.body,
    });
    if (!String(answer.headers["content-type"]).startsWith("text/javascript")) return;
    for (const [, specifier = ""] of answer.body.matchAll(/^(?:import|export)\s*[\w\s{},*]*?(?:from\s*)?"([^"]+)"/gm)) {
      expect(specifier, `an import of ${url}`).toMatch(/^\.\.?\//);
      await load(new URL(specifier, `http://stoker${url}`).pathname);
    }
  };
  for (const [, url = ""] of page.matchAll(/(?:src|href)="(\/console\/[^"]+)"/g)) await load(url);
  return found;
}

describe("the page", () => {
  it.each(["/console", "/console/", "/console/billing", "/console/deployments/d_1"])(
    "%s is served without a key and kept by nobody",
    async (url) => {
      const answer = await get(url);
      expect(answer.statusCode).toBe(200);
      expect(answer.headers["content-type"]).toBe("text/html; charset=utf-8");
      expect(answer.headers["cache-control"]).toBe("no-store");
      expect(answer.headers["x-frame-options"]).toBe("DENY");
      expect(answer.headers["x-content-type-options"]).toBe("nosniff");
    },
  );

  it("lets no script run but this server's files, and holds none itself", async () => {
    const answer = await get("/console");
    const policy = new Map(
      String(answer.headers["content-security-policy"])
        .split("; ")
        .map((part) => [part.split(" ")[0], part] as const),
    );
    expect(policy.get("default-src")).toBe("default-src 'none'");
    expect(policy.get("script-src")).toBe("script-src 'self'");
    expect(policy.get("style-src")).toBe("style-src 'self'");
    expect(policy.get("connect-src")).toBe("connect-src 'self'");
    expect(policy.get("frame-ancestors")).toBe("frame-ancestors 'none'");
    expect(String(answer.headers["content-security-policy"])).not.toMatch(/unsafe|http|\*|sha256/);
    expect(answer.body).not.toMatch(/<script(?![^>]* src=)/);
    expect(answer.body).not.toMatch(/\bon\w+=|style="|https?:\/\/(?!stoker\.example\.com)/);
  });

  it("says whether anybody may sign up, and under which address programs call", async () => {
    expect((await get("/console")).body).toContain('<meta name="stoker-sign-up" content="open">');
    expect((await get("/console")).body).toContain('<meta name="stoker-url" content="https://stoker.example.com">');
    const closed = await createHttp({ ...fakePorts().deps, isSignUpOpen: false, publicUrl: undefined });
    const page = (await closed.inject({ method: "GET", url: "/console" })).body;
    await closed.close();
    expect(page).toContain('<meta name="stoker-sign-up" content="closed">');
    expect(page).toContain('<meta name="stoker-url" content="">');
  });
});

describe("the bare address", () => {
  const visit = (url: string, accept: string, method: "GET" | "POST" = "GET") =>
    app.inject({ method, url, headers: { accept } });
  const browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";

  it("leads a browser to the console", async () => {
    for (const url of ["/", "/?utm=x"]) {
      const { statusCode, headers } = await visit(url, browser);
      expect([statusCode, headers.location, headers["cache-control"]], url).toEqual([302, "/console", "no-store"]);
    }
  });

  it("tells a program what runs here and where to read on", async () => {
    const answer = await visit("/", "*/*");
    expect(answer.headers["content-type"]).toContain("application/json");
    const { version, ...said } = answer.json();
    expect(version).toMatch(/^\d+\.\d+\.\d+/);
    expect(said).toEqual({ name: "Stoker", docs: "/docs", openapi: "/openapi.json", console: "/console" });
    for (const path of [said.docs, said.openapi, said.console])
      expect((await visit(path, "*/*")).statusCode, path).toBe(200);
  });

  it("takes nothing else, and no other unknown path leads a browser anywhere", async () => {
    const wrong = await visit("/", browser, "POST");
    expect([wrong.statusCode, wrong.headers["allow"]]).toEqual([405, "GET, HEAD"]);
    const unknown = await visit("/nothing", browser);
    expect([unknown.statusCode, unknown.json()]).toMatchObject([404, { detail: "Not Found" }]);
  });
});

describe("its files", () => {
  it("are all there, may be kept for good, and come to no more than 300 KB of script", async () => {
    const files = [...(await loaded()).entries()];
    const scripts = files.filter(([, { type }]) => type.startsWith("text/javascript"));
    expect(scripts.length).toBeGreaterThan(20);
    expect(scripts.reduce((sum, [, { bytes }]) => sum + bytes, 0)).toBeLessThanOrEqual(maxScriptBytes);
    expect(files.filter(([, { type }]) => type.startsWith("text/css"))).toHaveLength(1);
  });

  it("hold no types any more, so a browser reads them", async () => {
    const scripts = [...(await loaded()).entries()].filter(([url]) => url.endsWith("/snippets.ts"));
    expect(scripts).toHaveLength(1);
    for (const [, { text }] of scripts) expect(text).not.toMatch(/\bexport (type|interface)\b/);
  });

  it.each([
    "/console/assets/0000000000000000/main.ts",
    "/console/assets/VERSION/nothing.ts",
    "/console/assets/VERSION/tsconfig.json",
    "/console/assets/VERSION/../../package.json",
    "/console/assets/VERSION/%2e%2e/package.json",
    "/console/assets/VERSION/..%2fpackage.json",
  ])("%s is not there", async (path) => {
    const version = /\/console\/assets\/(\w+)\//.exec((await get("/console")).body)?.[1] ?? "";
    expect(version).toMatch(/^[0-9a-f]{16}$/);
    const answer = await get(path.replace("VERSION", version));
    // A browser that resolved the dots itself asks for another page of the console, which holds nothing of ours.
    if (answer.statusCode === 200) expect(answer.body).toMatch(/^<!doctype html>/);
    else expect(answer.statusCode).toBe(404);
    expect(answer.body).not.toContain('"dependencies"');
  });

  it("make no markup and no program out of text", () => {
    const files = globSync("**/*.ts", { cwd: sources });
    expect(files.length).toBeGreaterThan(20);
    const wrong = files.filter((file) =>
      /innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function\(|srcdoc/.test(
        readFileSync(join(sources, file), "utf8"),
      ),
    );
    expect(wrong).toEqual([]);
  });
});
