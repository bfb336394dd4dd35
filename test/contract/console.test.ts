// The console as a browser is handed it: one page, its files, and nothing that another server or an injected text could add.
import { globSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { consoleShell } from "../../control-plane/http/console/shell.ts";
import { createHttp } from "../../control-plane/http/core/create-http.ts";
import { fakePorts } from "../fakes/ports.ts";

const sources = join(import.meta.dirname, "../../console");
const built = join(sources, "dist");
const folder = "/console/assets/";
/** Of scripts and styles, compressed: before sign-in, and with any page. */
const maxBytes = 300_000;
/** Of files for the first page. */
const maxFiles = 15;

let app: Awaited<ReturnType<typeof createHttp>>;
beforeAll(async () => {
  app = await createHttp(fakePorts().deps);
});
afterAll(() => app.close());

const get = (url: string, headers: Record<string, string> = {}) => app.inject({ method: "GET", url, headers });

interface Served {
  readonly type: string;
  readonly compressed: number;
  /** Addresses of what it always loads, and of what it loads when a page is opened. */
  readonly imports: readonly string[];
  readonly later: readonly string[];
}

const seen = new Map<string, Promise<Served>>();
const served = (url: string): Promise<Served> => {
  const known = seen.get(url) ?? load(url);
  seen.set(url, known);
  return known;
};

async function load(url: string): Promise<Served> {
  const answer = await get(url);
  expect(answer.statusCode, url).toBe(200);
  expect(answer.headers["cache-control"], url).toBe("public, max-age=31536000, immutable");
  const type = String(answer.headers["content-type"]);
  const found = (pattern: RegExp) =>
    type.startsWith("text/javascript")
      ? [...answer.body.matchAll(pattern)].map(([, file = ""]) => `${folder}${file}`)
      : [];
  return {
    type,
    compressed: (await get(url, { "accept-encoding": "gzip" })).rawPayload.length,
    imports: found(/(?:\bimport|\bfrom)\s*["'`]\.\/([\w.-]+)["'`]/g),
    later: found(/\bimport\(\s*["'`]\.\/([\w.-]+)["'`]\s*\)/g),
  };
}

/** All addresses that loading `urls` loads. */
async function closure(urls: readonly string[]): Promise<ReadonlySet<string>> {
  const all = new Set<string>();
  const add = async (url: string): Promise<void> => {
    if (all.has(url)) return;
    all.add(url);
    for (const next of (await served(url)).imports) await add(next);
  };
  for (const url of urls) await add(url);
  return all;
}

/** Files that the page itself names. */
async function firstFiles(): Promise<readonly string[]> {
  const { body } = await get("/console");
  return [...body.matchAll(/(?:src|href)="(\/console\/assets\/[^"]+)"/g)].map(([, url = ""]) => url);
}

async function size(urls: ReadonlySet<string>): Promise<number> {
  let sum = 0;
  for (const url of urls) sum += (await served(url)).compressed;
  return sum;
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
    const nonce = /^style-src 'self' 'nonce-([\w-]{22})'$/.exec(policy.get("style-src") ?? "")?.[1];
    expect(nonce, policy.get("style-src")).toBeDefined();
    expect(answer.body).toContain(`nonce="${nonce}"`);
    const other = await get("/console");
    expect(other.headers["content-security-policy"], "a nonce is used once").not.toContain(nonce);
    expect(policy.get("connect-src")).toBe("connect-src 'self'");
    expect(policy.get("frame-ancestors")).toBe("frame-ancestors 'none'");
    expect(String(answer.headers["content-security-policy"])).not.toMatch(/unsafe|http|\*|sha256/);
    expect(answer.body).not.toMatch(/<script(?![^>]* src=)/);
    expect(answer.body).not.toMatch(/\bon\w+=|style="|https?:\/\/(?!stoker\.example\.com)/);
  });

  it("says whether anybody may sign up, and under which address programs call", async () => {
    expect((await get("/console")).body).toContain('<meta name="stoker-sign-up" content="open" />');
    expect((await get("/console")).body).toContain('<meta name="stoker-url" content="https://stoker.example.com" />');
    const closed = await createHttp({ ...fakePorts().deps, isSignUpOpen: false, publicUrl: undefined });
    const page = (await closed.inject({ method: "GET", url: "/console" })).body;
    await closed.close();
    expect(page).toContain('<meta name="stoker-sign-up" content="closed" />');
    expect(page).toContain('<meta name="stoker-url" content="" />');
  });
});

describe("its files", () => {
  it("come to no more than 300 KB before sign-in, and with each page after it", async () => {
    const first = await firstFiles();
    expect(first.length).toBeGreaterThan(1);
    expect(first.length).toBeLessThan(maxFiles);
    const entrance = await closure(first);
    expect(await size(entrance)).toBeLessThanOrEqual(maxBytes);

    // After sign-in the entrance loads a frame, which loads a page when it is opened.
    const frames = (await Promise.all([...entrance].map(async (url) => (await served(url)).later))).flat();
    const styles = readdirSync(join(built, "assets")).filter((name) => name.endsWith(".css"));
    let pages = 0;
    for (const frame of frames) {
      const always = [...(await closure([...entrance, frame])), ...styles.map((name) => `${folder}${name}`)];
      for (const page of [frame, ...(await served(frame)).later]) {
        pages += 1;
        expect(await size(new Set([...always, ...(await closure([page]))])), page).toBeLessThanOrEqual(maxBytes);
      }
    }
    expect(pages).toBeGreaterThan(10);
  });

  it("are compressed for whoever accepts it", async () => {
    const [script = ""] = (await firstFiles()).filter((url) => url.endsWith(".js"));
    const plain = await get(script);
    const packed = await get(script, { "accept-encoding": "gzip, deflate, br" });
    expect([plain.headers["content-encoding"], packed.headers["content-encoding"]]).toEqual([undefined, "gzip"]);
    expect([plain.headers["vary"], packed.headers["vary"]]).toEqual(["accept-encoding", "accept-encoding"]);
    expect(gunzipSync(packed.rawPayload).equals(plain.rawPayload)).toBe(true);
  });

  it.each([
    "/console/assets/nothing.js",
    "/console/assets/../index.html",
    "/console/assets/../../package.json",
    "/console/assets/%2e%2e/%2e%2e/package.json",
    "/console/assets/..%2f..%2fpackage.json",
    "/console/assets/constructor",
  ])("%s is not there", async (path) => {
    const answer = await get(path);
    // A browser that resolved the dots itself asks for another page of the console, which holds nothing of ours.
    if (answer.statusCode === 200) expect(answer.body).toMatch(/^<!doctype html>/);
    else expect(answer.statusCode).toBe(404);
    expect(answer.body).not.toContain('"dependencies"');
  });

  it("make no markup and no program out of text", () => {
    const files = globSync("**/*.{ts,tsx}", { cwd: sources, exclude: ["dist*/**"] });
    expect(files.length).toBeGreaterThan(20);
    const wrong = files.filter((file) =>
      /innerHTML|InnerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function\(|srcdoc/i.test(
        readFileSync(join(sources, file), "utf8"),
      ),
    );
    expect(wrong).toEqual([]);
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

describe("a console that was not built", () => {
  it("says how to build it", () => {
    const { status, page } = consoleShell(undefined, { isSignUpOpen: true, publicUrl: undefined });
    expect(status).toBe(503);
    expect(page).toContain("npm run build");
  });
});
