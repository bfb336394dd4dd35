import { describe, expect, it } from "vitest";
import { ChatTemplate } from "../../../../runtime/llama/chat-template.ts";

const plain =
  "{% for m in messages %}<{{ m.role }}>{{ m.content | trim }}</{{ m.role }}>{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}";
const texts = { bos: "<s>", eos: "</s>" };
const prompt = {
  messages: [{ role: "user", content: "hi" }],
  tools: undefined,
  continuesLastMessage: false,
  templateArguments: {},
};

describe("a chat template", () => {
  it("has tool support only when a tool changes what it writes", () => {
    expect(new ChatTemplate(plain, texts).toolFormat).toBeUndefined();
    expect(new ChatTemplate(`{# tools #}${plain}`, texts).toolFormat).toBeUndefined();
    expect(new ChatTemplate(`{% if tools %}{{ tools | tojson }}{% endif %}${plain}`, texts).toolFormat?.name).toBe(
      "hermes",
    );
  });

  it("ends inside the message that is to be continued, its last space kept", () => {
    const messages = [...prompt.messages, { role: "assistant", content: "Well, " }];
    const text = new ChatTemplate(plain, texts).render({ ...prompt, messages, continuesLastMessage: true });
    expect(text).toBe("<user>hi</user><assistant>Well, ");
  });

  it("moves a system message to the front for templates that demand it there", () => {
    const strict = `{% if messages[1] and messages[1].role == "system" %}{{ raise_exception("system first") }}{% endif %}${plain}`;
    const messages = [...prompt.messages, { role: "system", content: "be kind" }];
    const text = new ChatTemplate(strict, texts).render({ ...prompt, messages });
    expect(text).toBe("<system>be kind</system><user>hi</user><assistant>");
  });

  it("writes numbers that no double holds as the nearest one, wherever they stand", () => {
    const source = `{{ tools | tojson }}{{ messages | tojson }}{{ depth | tojson }}${plain}`;
    const most = { type: "integer", maximum: 2n ** 63n - 1n };
    const text = new ChatTemplate(source, texts).render({
      messages: [
        { role: "user", content: "hi", tool_calls: [{ function: { name: "f", arguments: { n: -(2n ** 63n) } } }] },
      ],
      tools: [{ type: "function", function: { name: "f", parameters: { properties: { n: most } } } }],
      continuesLastMessage: false,
      templateArguments: { depth: 2n ** 60n },
    });
    expect(text).toContain('"maximum": 9223372036854776000');
    expect(text).toContain('"n": -9223372036854776000');
    expect(text).toContain("1152921504606847000");
  });

  it("refuses with the template's own words", () => {
    const never = new ChatTemplate('{{ raise_exception("no chats today") }}', texts);
    expect(() => never.render(prompt)).toThrow(/no chats today/);
  });
});
