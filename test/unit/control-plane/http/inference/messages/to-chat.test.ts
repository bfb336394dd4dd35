import { describe, expect, it } from "vitest";
import type { MessageBody } from "../../../../../../control-plane/http/inference/messages/message-request-schemas.ts";
import { chatFields } from "../../../../../../control-plane/http/inference/messages/to-chat.ts";
import type { ServiceError } from "../../../../../../control-plane/service-error.ts";

const seal = {
  seal: (reasoning: string) => Buffer.from(reasoning).toString("base64url"),
  open: (sealed: string) => (sealed === "bad" ? undefined : Buffer.from(sealed, "base64url").toString()),
};
const user = (content: unknown) => ({ role: "user", content });
const assistant = (content: unknown) => ({ role: "assistant", content });
const translated = (change: object = {}): Record<string, unknown> =>
  chatFields({ model: "m", max_tokens: 5, messages: [user("Hi")], ...change } as unknown as MessageBody, seal);
const messages = (...given: object[]) => translated({ messages: given })["messages"];
const refused = (change: object): Pick<ServiceError, "kind" | "code" | "param" | "message"> => {
  try {
    translated(change);
  } catch (error) {
    return error as ServiceError;
  }
  throw new Error("it was translated");
};
const use = (id: string, input: unknown = {}) => ({ type: "tool_use", id, name: "f", input });
const result = (id: string, rest: object = {}) => ({ type: "tool_result", tool_use_id: id, ...rest });
const image = { type: "image", source: { type: "base64", media_type: "image/png", data: "aGk=" } };
const imagePart = { type: "image_url", image_url: { url: "data:image/png;base64,aGk=" } };
const called = (id: string, json = "{}") => ({ id, type: "function", function: { name: "f", arguments: json } });

describe("a request of the Messages API", () => {
  it("has the fields of a chat request and no other", () => {
    expect(
      translated({
        system: "Be brief.",
        stop_sequences: ["END"],
        temperature: 0,
        top_p: 0.5,
        top_k: 3,
        stream: true,
        metadata: { user_id: "u-1" },
        service_tier: "auto",
        cache_control: { type: "ephemeral" },
        inference_geo: null,
      }),
    ).toEqual({
      model: "m",
      messages: [
        { role: "system", content: "Be brief." },
        { role: "user", content: "Hi" },
      ],
      max_tokens: 5,
      stop: ["END"],
      temperature: 0,
      top_p: 0.5,
      top_k: 3,
      stream: true,
      user: "u-1",
    });
  });

  it("joins blocks of text by lines, and ignores where they may be cached", () => {
    const blocks = [
      { type: "text", text: "a", cache_control: { type: "ephemeral", ttl: "1h" } },
      { type: "text", text: "b" },
    ];
    expect(translated({ system: blocks, messages: [user(blocks)] })["messages"]).toEqual([
      { role: "system", content: "a\nb" },
      { role: "user", content: "a\nb" },
    ]);
  });

  it("joins consecutive messages of one role", () => {
    expect(messages(user("a"), user([image]), assistant("b"), assistant([use("t1")]), user("c"))).toEqual([
      user([{ type: "text", text: "a" }, imagePart]),
      { role: "assistant", content: "b", tool_calls: [called("t1")] },
      user("c"),
    ]);
  });

  it("continues a last message of the assistant, but not its calls", () => {
    const field = "continue_final_message";
    expect(translated({ messages: [user("Hi"), assistant("The answer is (")] })[field]).toBe(true);
    expect(translated({ messages: [user("Hi"), assistant([use("t1")])] })[field]).toBeUndefined();
    expect(translated()[field]).toBeUndefined();
  });

  it("sends results of tools before the text beside them, failed ones marked, images after them", () => {
    expect(
      messages(
        user("Hi"),
        assistant([{ type: "text", text: "Let me see." }, use("t1", { city: "Rome" }), use("t2")]),
        user([
          { type: "text", text: "Here." },
          result("t1", { content: [{ type: "text", text: "21 C" }, image] }),
          result("t2", { content: "no such place", is_error: true }),
          result("t3"),
        ]),
      ),
    ).toEqual([
      user("Hi"),
      {
        role: "assistant",
        content: "Let me see.",
        tool_calls: [called("t1", '{"city":"Rome"}'), called("t2")],
      },
      { role: "tool", content: "21 C", tool_call_id: "t1" },
      { role: "tool", content: "Error:\nno such place", tool_call_id: "t2" },
      { role: "tool", content: "", tool_call_id: "t3" },
      user([{ type: "text", text: "Here." }, imagePart]),
    ]);
  });

  it("has null as content of an assistant that only calls", () => {
    expect(messages(user("Hi"), assistant([use("t1")]), user([result("t1", { content: "x" })]))).toMatchObject([
      {},
      { role: "assistant", content: null },
      { role: "tool" },
    ]);
  });

  it("restores reasoning from the signature, shown or omitted", () => {
    const signature = `stoker1.${seal.seal("hm")}`;
    for (const thought of [
      { type: "thinking", thinking: "hm", signature },
      { type: "thinking", thinking: "", signature },
      { type: "redacted_thinking", data: signature },
    ])
      expect(messages(user("Hi"), assistant([thought, { type: "text", text: "Yes" }]), user("Why?"))).toMatchObject([
        {},
        { role: "assistant", content: "Yes", reasoning_content: "hm" },
        {},
      ]);
  });

  it("drops thinking that another server signed or none did", () => {
    for (const signature of ["EqQBCgIYAhIM1gbcDa9GJwZA", "", null, undefined])
      expect(
        messages(
          user("Hi"),
          assistant([
            { type: "thinking", thinking: "hm", signature },
            { type: "text", text: "Yes" },
          ]),
        ),
      ).toEqual([user("Hi"), assistant("Yes")]);
  });

  it("refuses thinking that was changed", () => {
    const signature = `stoker1.${seal.seal("hm")}`;
    for (const block of [
      { type: "thinking", thinking: "ha", signature },
      { type: "thinking", thinking: "hm", signature: "stoker1.bad" },
      { type: "redacted_thinking", data: "stoker1.bad" },
    ])
      expect(refused({ messages: [user("Hi"), assistant([block])] })).toMatchObject({
        kind: "bad_request",
        code: "invalid_signature",
        message: expect.stringContaining("messages.1.content.0"),
      });
  });

  it("includes documents and search results as text", () => {
    const content = [
      { type: "document", title: "Terms", context: "of 2026", source: { type: "text", data: "Pay." } },
      { type: "document", source: { type: "content", content: [{ type: "text", text: "x" }, image] } },
      { type: "search_result", title: "T", source: "https://e.example", content: [{ type: "text", text: "y" }] },
    ];
    expect(messages(user(content))).toEqual([
      user([
        { type: "text", text: "Terms\nof 2026" },
        { type: "text", text: "Pay." },
        { type: "text", text: "x" },
        imagePart,
        { type: "text", text: "T\nhttps://e.example" },
        { type: "text", text: "y" },
      ]),
    ]);
  });

  it.each([
    ["image", { type: "image", source: { type: "url", url: "https://e.example/cat.png" } }, /Send the image as base64/],
    ["image", { type: "image", source: { type: "file", file_id: "f" } }, /Send the image as base64/],
    ["document", { type: "document", source: { type: "base64", data: "JVBER" } }, /Send the document as text/],
    ["tool_use of a user", use("t1"), /cannot contain/],
  ])("refuses a %s that it cannot read, and names what it can (%#)", (_name, block, message) => {
    expect(refused({ messages: [user([{ type: "text", text: "x" }, block])] })).toMatchObject({
      kind: "invalid",
      param: expect.stringMatching(/^messages\.0\.content\.1\./),
      message: expect.stringMatching(message),
    });
  });

  it("translates tools of the client, and refuses those that a server would run", () => {
    const input_schema = { type: "object", properties: { city: { type: "string" } } };
    const tool = { name: "f", description: "d", input_schema, cache_control: { type: "ephemeral" } };
    const functions = [{ type: "function", function: { name: "f", description: "d", parameters: input_schema } }];
    expect(translated({ tools: [tool] })["tools"]).toEqual(functions);
    expect(translated({ tools: [{ ...tool, type: "custom", strict: true }] })["tools"]).toEqual(functions);
    expect(refused({ tools: [tool, { type: "web_search_20260318", name: "web_search" }] })).toMatchObject({
      kind: "bad_request",
      param: "tools.1.type",
      message: expect.stringMatching(/web_search_20260318 is not supported.*input_schema/),
    });
    expect(refused({ tools: [{ name: "f" }] })).toMatchObject({ kind: "invalid", param: "tools.0.input_schema" });
  });

  it.each([
    [{ type: "auto" }, { tool_choice: "auto" }],
    [{ type: "any" }, { tool_choice: "required" }],
    [{ type: "none" }, { tool_choice: "none" }],
    [{ type: "tool", name: "f" }, { tool_choice: { type: "function", function: { name: "f" } } }],
    [
      { type: "any", disable_parallel_tool_use: true },
      { tool_choice: "required", parallel_tool_calls: false },
    ],
  ])("translates the tool choice %j", (tool_choice, fields) => {
    expect(translated({ tool_choice })).toMatchObject(fields);
    expect(translated({ tool_choice })["parallel_tool_calls"]).toBe(
      "parallel_tool_calls" in fields ? false : undefined,
    );
  });

  it.each([
    [{ thinking: { type: "disabled" } }, { enabled: false }, undefined, false],
    [{ thinking: { type: "adaptive" } }, { enabled: true }, undefined, true],
    [{ thinking: { type: "enabled", budget_tokens: 1024 } }, { enabled: true, effort: "low" }, "low", true],
    [{ thinking: { type: "enabled", budget_tokens: 4096 } }, { enabled: true, effort: "medium" }, "medium", true],
    [{ thinking: { type: "enabled", budget_tokens: 32_000 } }, { enabled: true, effort: "high" }, "high", true],
    [
      { thinking: { type: "adaptive" }, output_config: { effort: "xhigh" } },
      { enabled: true, effort: "high" },
      "high",
      true,
    ],
  ])("turns reasoning on or off by %j", (change, reasoning, effort, isOn) => {
    expect(translated(change)).toMatchObject({
      reasoning,
      chat_template_kwargs: { enable_thinking: isOn, thinking: isOn },
    });
    expect(translated(change)["reasoning_effort"]).toBe(effort);
  });

  it("leaves reasoning to the model where the request does not mention it", () => {
    const written = JSON.parse(JSON.stringify(translated())) as object;
    expect(Object.keys(written)).toEqual(["model", "messages", "max_tokens"]);
    expect(translated({ output_config: { effort: "low" } })).toMatchObject({ reasoning_effort: "low" });
  });

  it("constrains the reply to a JSON schema", () => {
    const schema = { type: "object" };
    const format = { type: "json_schema", schema };
    const expected = { type: "json_schema", json_schema: { name: "response", schema } };
    expect(translated({ output_config: { format } })["response_format"]).toEqual(expected);
    expect(translated({ output_format: format })["response_format"]).toEqual(expected);
  });

  it.each(["container", "mcp_servers"])("refuses %s, and says what to do", (field) => {
    expect(refused({ [field]: [{ type: "x" }] })).toMatchObject({ kind: "bad_request", param: field });
    expect(translated({ [field]: null })).toEqual(translated());
  });
});
