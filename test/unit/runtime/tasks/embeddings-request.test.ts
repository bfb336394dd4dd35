import { describe, expect, it } from "vitest";
import { Fields } from "../../../../runtime/server/fields.ts";
import { readEmbeddingsRequest, readNativeEmbeddings } from "../../../../runtime/tasks/embedding-routes.ts";

const read = (body: Record<string, unknown>) => readEmbeddingsRequest(new Fields(body));

describe("an embeddings request", () => {
  it.each([
    ["one text", "a", ["a"]],
    ["texts", ["a", ""], ["a", ""]],
    ["the tokens of one text", [5, 6], [[5, 6]]],
    ["tokens of several texts", [[5], [6, 7]], [[5], [6, 7]]],
  ])("takes %s", (_, input, inputs) => {
    expect(read({ input }).inputs).toEqual(inputs);
  });

  it.each([
    ["no input", {}, /input is required/],
    ["an empty list", { input: [] }, /the list is empty/],
    ["a number among texts", { input: ["a", 1] }, /entry 1/],
    ["a negative token", { input: [[-1]] }, /entry 0/],
    ["more than 1024 inputs", { input: Array(1025).fill("a") }, /1025 entries/],
    ["too few dimensions", { input: "a", dimensions: 8 }, /at least 32/],
    ["an unknown encoding", { input: "a", encoding_format: "int8" }, /float or base64/],
    ["an unknown input type", { input: "a", input_type: "essay" }, /query, passage, document/],
  ])("refuses %s and says why", (_, body, words) => {
    expect(() => read(body)).toThrow(words);
  });

  it("refuses a token that the vocabulary does not have", () => {
    const request = read({ input: [5, 900] });
    expect(() => request.checkTokens([5, 900], 900)).toThrow(/ends at 899/);
    expect(() => request.checkTokens([5, 899], 900)).not.toThrow();
  });

  it("refuses an image in the native form, which a text model cannot embed", () => {
    expect(() => readNativeEmbeddings(new Fields({ inputs: ["a"], image: "data:," }))).toThrow(/no images/);
  });
});
