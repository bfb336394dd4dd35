import { describe, expect, it } from "vitest";
import { KnownPaths } from "../../../../../control-plane/http/core/known-paths.ts";

const known = new KnownPaths();
for (const [method, url] of [
  ["GET", "/v1/models"],
  ["HEAD", "/v1/models"],
  ["GET", "/v1/files"],
  ["POST", "/v1/files"],
  ["GET", "/v1/files/:file_id/content"],
  ["POST", "/v1/inference/*"],
  ["POST", "/v1/chat/completions"],
] as const)
  known.add(method, url, url.includes("chat") ? "compat" : "service");

describe("the nearest route of an unknown path", () => {
  it.each([
    ["GET", "/v1/modelz?limit=1", "GET /v1/models"],
    ["POST", "/v1/file", "POST /v1/files"],
    ["DELETE", "/v1/file/", "GET /v1/files"],
    ["GET", "/v1/files/file-4711/contents", "GET /v1/files/{file_id}/content"],
    ["POST", "/chat/completions", "POST /v1/chat/completions"],
    ["POST", "/v1/inferences/owner/model", "POST /v1/inference/{model_name}"],
  ])("of %s %s is %s", (method, url, expected) => {
    const found = known.nearest(method, url);
    expect(`${found?.method} ${found?.path}`).toBe(expected);
  });

  it("has the dialect of its surface", () => {
    expect(known.nearest("POST", "/v1/chat/completion")?.dialect).toBe("compat");
  });

  it.each(["/", "/wp-login.php", "/.env", `/${"a".repeat(5000)}`, `/v1${"/x".repeat(60)}`, "/%00", "//////", "/*/:a"])(
    "is undefined for %s, which resembles none",
    (url) => {
      expect(known.nearest("GET", url)).toBeUndefined();
    },
  );
});
