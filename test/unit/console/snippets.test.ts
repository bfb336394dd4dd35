// What the playground sends is what the snippets send, whatever was typed into it.
import { spawnSync } from "node:child_process";
import { describe, expect, it } from "vitest";
import { snippets } from "../../../console/domain/snippets.ts";

const request = {
  model: "org/model",
  messages: [{ role: "user" as const, content: `It's "quoted", $HOME\nand \\ more` }],
  max_tokens: 64,
  temperature: 0.5,
};
const of = { url: "https://stoker.example.com", key: "stk_key", request };

describe("curl", () => {
  it("is a shell command that sends exactly the request", () => {
    const shown = spawnSync("sh", ["-c", `curl() { printf '%s\\n' "$@"; }\n${snippets.curl(of)}`], {
      encoding: "utf8",
    });
    expect(shown.status, shown.stderr).toBe(0);
    const body = shown.stdout.slice(shown.stdout.indexOf("-d\n") + 3);
    expect(JSON.parse(body)).toEqual({ ...request, stream: true });
    expect(shown.stdout).toContain("https://stoker.example.com/v1/chat/completions");
    expect(shown.stdout).toContain("Authorization: Bearer stk_key");
  });

  it("reads the key from the environment without a known key", () => {
    const shown = spawnSync(
      "sh",
      ["-c", `curl() { printf '%s\\n' "$@"; }\n${snippets.curl({ ...of, key: undefined })}`],
      {
        encoding: "utf8",
        env: { ...process.env, STOKER_API_KEY: "stk_mine" },
      },
    );
    expect(shown.stdout).toContain("Authorization: Bearer stk_mine");
  });
});

it.each(["Python", "TypeScript"] as const)(
  "contains the server, the model, the key and the message in %s",
  (language) => {
    const text = snippets[language](of);
    for (const part of [
      "https://stoker.example.com/v1",
      "org/model",
      "stk_key",
      JSON.stringify(request.messages[0]?.content),
    ])
      expect(text).toContain(part);
    expect(snippets[language]({ ...of, key: undefined })).toContain("STOKER_API_KEY");
  },
);
