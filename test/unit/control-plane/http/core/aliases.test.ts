import { expect, it } from "vitest";
import { aliasesOf } from "../../../../../control-plane/http/core/aliases.ts";

it("the compatibility API has its other name and its short forms", () => {
  expect(aliasesOf("/v1/compat/chat/completions")).toEqual(["/v1/openai/chat/completions", "/v1/chat/completions"]);
  expect(aliasesOf("/v1/completions")).toEqual(["/v1/compat/completions", "/v1/openai/completions"]);
  expect(aliasesOf("/deploy/list")).toEqual([]);
});
