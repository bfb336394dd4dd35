import { describe, expect, test } from "vitest";
import { errorText } from "../../../cli/api.ts";
import { exitCode, exitCodeOfStatus } from "../../../cli/cli-error.ts";

describe("an error answer becomes one sentence in every dialect of the API", () => {
  test.each([
    ["native", { error: "Model not found", detail: { error: "Model not found" } }, "Model not found"],
    ["compat", { error: { message: "No such model" } }, "No such model"],
    ["speech", { detail: { message: "Voice not found" } }, "Voice not found"],
    ["unknown route", { detail: "Not Found" }, "Not Found"],
    [
      "validation",
      { error: { message: "x" }, detail: [{ loc: ["body", "max_tokens"], msg: "Input should be greater than 0" }] },
      "max_tokens: Input should be greater than 0",
    ],
    [
      "validation that names its field itself",
      { detail: [{ loc: ["body", "hf", "repo"], msg: "hf.repo: There is no such repository." }] },
      "hf.repo: There is no such repository.",
    ],
    [
      "validation whose sentence begins with its field",
      { detail: [{ loc: ["query", "from"], msg: "`from` is not a period. Use YYYY.MM." }] },
      "`from` is not a period. Use YYYY.MM.",
    ],
    [
      "validation of the request as a whole",
      { detail: [{ loc: ["body"], msg: "The account has spent more." }] },
      "The account has spent more.",
    ],
  ])("%s", (_dialect, body, sentence) => {
    expect(errorText(body)).toBe(sentence);
  });

  test("has no sentence for a body without a message", () => {
    expect(errorText({})).toBeUndefined();
    expect(errorText(undefined)).toBeUndefined();
  });
});

test.each([
  [400, exitCode.wrongUsage],
  [401, exitCode.notAuthenticated],
  [402, exitCode.outOfFunds],
  [403, exitCode.notAuthenticated],
  [404, exitCode.notFound],
  [409, exitCode.failed],
  [422, exitCode.wrongUsage],
  [429, exitCode.outOfFunds],
  [500, exitCode.failed],
  [503, exitCode.unavailable],
])("status %i ends the program with code %i", (status, code) => {
  expect(exitCodeOfStatus(status)).toBe(code);
});
