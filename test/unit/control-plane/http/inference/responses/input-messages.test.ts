import { describe, expect, it } from "vitest";
import { chatCompletion, itemsOf } from "../../../../../../control-plane/http/inference/responses/chat-fields.ts";
import { itemTypes, messagesOf } from "../../../../../../control-plane/http/inference/responses/input-messages.ts";
import type { ResponseItem } from "../../../../../../control-plane/http/inference/responses/responses-schemas.ts";
import { calledTools, chatTools } from "../../../../../../control-plane/http/inference/responses/tools.ts";

const open = (content: string) => `opened ${content}`;
const read = (items: readonly ResponseItem[], instructions?: string) => messagesOf(items, instructions, open);
const image = { type: "input_image" as const, image_url: "data:image/png;base64,AAAA", detail: "original" };
const input = (text: string) => ({ type: "input_text" as const, text });

describe("input items", () => {
  it("become one system message as long as they are leading instructions", () => {
    expect(
      read(
        [
          { role: "developer", content: [input("Be "), input("brief.")] },
          { role: "user", content: "Hi" },
          { role: "system", content: "Be loud." },
        ],
        "You are Ada.",
      ),
    ).toEqual([
      { role: "system", content: "You are Ada.\n\nBe brief." },
      { role: "user", content: "Hi" },
      { role: "system", content: "Be loud." },
    ]);
  });

  it("become one message of the assistant per turn", () => {
    const call = (id: string) => ({ type: "function_call", call_id: id, name: "f", arguments: "{}" });
    const said = (text: string): ResponseItem => ({
      type: "message",
      role: "assistant",
      content: [{ type: "output_text", text }],
    });
    const chatCall = (id: string) => ({ id, type: "function", function: { name: "f", arguments: "{}" } });
    expect(
      read([
        { type: "reasoning", summary: [], content: [{ type: "reasoning_text", text: "hm" }] },
        said("Let me see."),
        call("a"),
        call("b"),
        { type: "function_call_output", call_id: "a", output: "1" },
        { type: "function_call_output", call_id: "b", output: "2" },
        { type: "reasoning", summary: [], encrypted_content: "x" },
        said("3"),
        said("4"),
      ]),
    ).toEqual([
      {
        role: "assistant",
        reasoning_content: "hm",
        content: "Let me see.",
        tool_calls: [chatCall("a"), chatCall("b")],
      },
      { role: "tool", tool_call_id: "a", content: "1" },
      { role: "tool", tool_call_id: "b", content: "2" },
      { role: "assistant", reasoning_content: "opened x", content: "3" },
      { role: "assistant", content: "4" },
    ]);
  });

  it("keep images, and give those of a tool to the user after all outputs of the turn", () => {
    const url = { type: "image_url", image_url: { url: image.image_url, detail: "high" } };
    const output = (id: string, parts: ResponseItem["output"]) => ({
      type: "function_call_output",
      call_id: id,
      output: parts,
    });
    expect(
      read([
        { role: "user", content: [input("See"), image] },
        output("a", [input("one"), image]),
        output("b", "two"),
      ] as ResponseItem[]),
    ).toEqual([
      { role: "user", content: [{ type: "text", text: "See" }, url] },
      { role: "tool", tool_call_id: "a", content: "one" },
      { role: "tool", tool_call_id: "b", content: "two" },
      { role: "user", content: [url] },
    ]);
  });

  it("read a file with text, and refuse any other", () => {
    const file = (data: string | null) => [
      { role: "user" as const, content: [{ type: "input_file" as const, filename: "a.txt", file_data: data }] },
    ];
    const data = `data:text/plain;charset=utf-8;base64,${Buffer.from("é").toString("base64")}`;
    expect(read(file(data))).toEqual([{ role: "user", content: "a.txt:\né" }]);
    for (const other of ["data:application/pdf;base64,AAAA", null])
      expect(() => read(file(other))).toThrow(/must contain text/);
  });

  it("name the supported kinds where another one is sent", () => {
    expect(() => read([{ type: "web_search_call" }])).toThrow(itemTypes.join(", "));
    expect(() => read([{ role: "user", content: [{ type: "input_image", image_url: null }] }])).toThrow(/data: URI/);
    expect(() => read([{ role: "assistant", content: [image] }])).toThrow(/Only text/);
  });

  it("name the field that is missing", () => {
    for (const [item, param] of [
      [{ type: "function_call", name: "f", arguments: "{}" }, "call_id"],
      [{ type: "function_call", call_id: "a", arguments: "{}" }, "name"],
      [{ type: "custom_tool_call", call_id: "a", name: "f" }, "input"],
      [{ type: "function_call_output", call_id: "a" }, "output"],
      [{ content: "x" }, "role"],
      [{ role: "user" }, "content"],
    ] as const)
      expect(() => read([item as ResponseItem])).toThrow(expect.objectContaining({ param: `input.0.${param}` }));
  });
});

describe("tools", () => {
  const tools = [
    { type: "function", name: "a", description: null, parameters: { type: "object" }, strict: false },
    {
      type: "custom",
      name: "b",
      description: "Edit",
      format: { type: "grammar", syntax: "lark", definition: "start: /x/" },
    },
  ];

  it("become functions", () => {
    expect(chatTools(tools, "auto")).toEqual({
      tool_choice: "auto",
      tools: [
        { type: "function", function: { name: "a", parameters: { type: "object" } } },
        {
          type: "function",
          function: {
            name: "b",
            description: "Edit\n\nThe input must match this lark grammar:\nstart: /x/",
            parameters: {
              type: "object",
              properties: { input: { type: "string" } },
              required: ["input"],
              additionalProperties: false,
            },
          },
        },
      ],
    });
  });

  it("are chosen by name, or as a set", () => {
    expect(chatTools(tools, { type: "custom", name: "b" }).tool_choice).toEqual({
      type: "function",
      function: { name: "b" },
    });
    const allowed = chatTools(tools, {
      type: "allowed_tools",
      mode: "required",
      tools: [{ type: "function", name: "a" }],
    });
    expect(allowed).toMatchObject({ tool_choice: "required", tools: [{ function: { name: "a" } }] });
    expect(allowed.tools).toHaveLength(1);
    expect(chatTools([], "required")).toEqual({ tools: undefined, tool_choice: undefined });
  });

  it("of a namespace become functions that contain its name", () => {
    const namespace = {
      type: "namespace",
      name: "crm",
      tools: [{ type: "function", name: "find" }, tools[1] as never],
    };
    const all = [...tools, namespace];
    const names = (choice: Parameters<typeof chatTools>[1]) =>
      chatTools(all, choice).tools?.map((tool) => (tool as { function: { name: string } }).function.name);
    expect(names("auto")).toEqual(["a", "b", "crm__find", "crm__b"]);
    expect(names({ type: "allowed_tools", tools: [{ type: "namespace", name: "crm" }] })).toEqual([
      "crm__find",
      "crm__b",
    ]);
    expect(chatTools(all, { type: "function", name: "find" }).tool_choice).toMatchObject({
      function: { name: "crm__find" },
    });
    expect(calledTools(all).get("crm__b")).toMatchObject({ name: "b", namespace: "crm", isCustom: true });
    const call = { type: "function_call", call_id: "x", namespace: "crm", name: "find", arguments: "{}" };
    expect(read([call])[0]?.tool_calls?.[0]?.function.name).toBe("crm__find");
    const nested = [{ type: "namespace", name: "x", tools: [namespace] }];
    expect(() => chatTools(nested, "auto")).toThrow(expect.objectContaining({ param: "tools.0.tools.0.type" }));
  });

  it("are refused where they are unknown or need a service", () => {
    expect(() => chatTools(tools, { type: "function", name: "c" })).toThrow(/not among tools/);
    expect(() => chatTools([{ type: "web_search" }], "auto")).toThrow(/Supported: function, custom, namespace/);
    expect(() => chatTools(tools, { type: "file_search" })).toThrow(/Supported: function, custom, namespace/);
    expect(() => chatTools([{ type: "function" }], "auto")).toThrow(expect.objectContaining({ param: "tools.0.name" }));
  });
});

describe("a request", () => {
  it("is the same request as a chat with its fields", () => {
    const body = {
      model: "org/model",
      input: "Hi",
      max_output_tokens: 5,
      top_p: 0.5,
      reasoning: { effort: "high" },
      top_logprobs: 2,
      safety_identifier: "u1",
      user: "u2",
      stream: true,
    };
    const completion = chatCompletion(body, { items: itemsOf(body), beforeCount: 0 }, open, 100);
    expect(completion).toMatchObject({ kind: "chat", stream: true, maxTokens: 5, endUser: "u1", promptBytes: 100 });
    expect(completion.fields).toEqual({
      model: "org/model",
      messages: [{ role: "user", content: "Hi" }],
      max_tokens: 5,
      top_p: 0.5,
      reasoning_effort: "high",
      logprobs: true,
      top_logprobs: 2,
      stream: true,
    });
  });

  it("needs an input", () => {
    expect(() => itemsOf({ model: "m" })).toThrow(/Field required/);
    expect(() => itemsOf({ model: "m", input: null })).toThrow(/Field required/);
    expect(() => itemsOf({ model: "m", input: [] })).toThrow(/at least 1 item/);
  });
});
