import { describe, expect, it } from "vitest";
import { asMessages, asResponses } from "../../../console/domain/chat-dialects.ts";
import { defaultSettings, requestOf, SettingsError } from "../../../console/domain/conversations.ts";

const turns = [{ message: { role: "user" as const, content: "Hello" } }];

describe("the request of a playground's chat", () => {
  it("has no field for a setting that is left at its default", () => {
    expect(requestOf("ada/model", defaultSettings, turns)).toEqual({
      model: "ada/model",
      messages: [{ role: "user", content: "Hello" }],
      max_tokens: 512,
      temperature: 0.7,
    });
  });

  it("names the service tier where the format has tiers of this meaning", () => {
    const request = requestOf("ada/model", { ...defaultSettings, serviceTier: "flex" }, turns);
    expect(request.service_tier).toBe("flex");
    expect(asResponses(request)).toMatchObject({ service_tier: "flex" });
    expect(asMessages(request)).not.toHaveProperty("service_tier");
  });

  it("is refused with the reason while tools or schema are no valid JSON", () => {
    for (const change of [{ tools: "{" }, { tools: "{}" }, { schema: "[]" }])
      expect(() => requestOf("ada/model", { ...defaultSettings, ...change }, turns)).toThrow(SettingsError);
  });
});
