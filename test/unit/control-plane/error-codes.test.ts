// docs/errors.md explains every code, with the statuses that it is sent with.
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { errorCodes } from "../../../control-plane/error-codes.ts";
import { errorKinds } from "../../../control-plane/http/errors/error-kinds.ts";
import { refusalOf, renderError } from "../../../control-plane/http/errors/render-error.ts";
import { type ErrorKind, type ForeignCode, ServiceError } from "../../../control-plane/service-error.ts";

const root = join(import.meta.dirname, "../../..");
const page = readFileSync(join(root, "docs/errors.md"), "utf8");
const entries = new Map(
  page
    .split(/^### /m)
    .slice(1)
    .map((text) => [text.slice(0, text.indexOf("\n")), text] as const),
);
const sources = globSync("control-plane/**/*.ts", { cwd: root, exclude: ["control-plane/error-codes.ts"] }).map(
  (file) => readFileSync(join(root, file), "utf8"),
);
const kinds: Readonly<Record<string, ErrorKind>> = {
  badRequest: "bad_request",
  notFound: "not_found",
  paymentRequired: "payment_required",
  rateLimited: "rate_limited",
  requestTimeout: "request_timeout",
  tooLarge: "too_large",
};

/** Statuses of each code, from the calls in the source that name kind and code. */
function raised(): ReadonlyMap<string, ReadonlySet<number>> {
  const found = new Map<string, Set<number>>();
  const add = (code: string, status: number) => found.set(code, (found.get(code) ?? new Set()).add(status));
  const functions =
    "badRequest|conflict|forbidden|invalid|notFound|paymentRequired|rateLimited|requestTimeout|suspended|tooLarge|unauthenticated|unavailable";
  for (const source of sources) {
    for (const [, name = "", code = ""] of source.matchAll(new RegExp(`\\b(${functions})\\(\\s*"([a-z_]+)",`, "g")))
      add(code, errorKinds[kinds[name] ?? (name as ErrorKind)].status);
    for (const [, kind = "", code = ""] of source.matchAll(
      /(?:new ServiceError|super)\(\s*"([a-z_]+)",\s*"([a-z_]+)"/g,
    ))
      add(code, errorKinds[kind as ErrorKind].status);
    for (const [, status = "", code = ""] of source.matchAll(/(?:ProtocolError|super)\(\s*(\d+),\s*"([a-z_]+)"/g))
      add(code, Number(status));
  }
  return found;
}

describe("the page of error codes", () => {
  it("explains each code once and no other", () => {
    expect([...page.matchAll(/^### (.+)$/gm)].map(([, code]) => code).toSorted()).toEqual([...errorCodes].toSorted());
  });

  it.each([...entries])("says what happened and what to do: %s", (_, text) => {
    const [, what = "", advice = ""] = /^\w+\n\n(.+?)\n\n\*\*What to do:\*\* (.+?)\n/s.exec(text) ?? [];
    expect(what.length).toBeGreaterThan(20);
    expect(advice.length).toBeGreaterThan(7);
  });

  it("names the statuses that the code is sent with", () => {
    const wrong: string[] = [];
    const all = raised();
    expect(all.size).toBeGreaterThan(220);
    for (const [code, statuses] of all) {
      // billing/record.ts has a function `invalid` of its own.
      const text = entries.get(code);
      if (text === undefined) continue;
      const [, line = ""] = /Status ((?:`\d+`(?: or )?)+)/.exec(text.replaceAll("\n", " ")) ?? [];
      const named = [...line.matchAll(/\d+/g)].map(Number);
      const missing = [...statuses].filter((status) => !named.includes(status));
      if (missing.length > 0) wrong.push(`${code}: ${missing.join(", ")}`);
    }
    expect(wrong).toEqual([]);
  });
});

describe("the list of codes", () => {
  it("has no code that nothing sends", () => {
    /** Codes of our own model server, which the control plane passes on. */
    const ofRuntime = new Set(["unsupported_audio", "unsupported_size"]);
    const all = sources.join("\n");
    expect(errorCodes.filter((code) => !ofRuntime.has(code) && !all.includes(`"${code}"`))).toEqual([]);
  });

  it("is what a response links to", () => {
    const linkOf = (error: ServiceError) => {
      const { headers } = renderError(refusalOf(error), "compat", "r1");
      const at = headers.indexOf("link");
      return at < 0 ? undefined : headers[at + 1];
    };
    expect(linkOf(new ServiceError("not_found", "model_not_found", "Model not found."))).toBe(
      '</docs/errors#model_not_found>; rel="help"',
    );
    expect(linkOf(new ServiceError("bad_request", "their_own" as ForeignCode, "No."))).toBeUndefined();
  });
});
