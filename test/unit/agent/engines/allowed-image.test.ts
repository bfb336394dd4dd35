import { describe, expect, it } from "vitest";
import { whyImageRefused } from "../../../../agent/engines/allowed-image.ts";
import { planInstance } from "../../../../agent/engines/plan-instance.ts";
import { instanceSpec } from "../../../fakes/instance-spec.ts";

const digest = `sha256:${"a".repeat(64)}`;
const host = {
  driver: "docker",
  runtimeImage: "stoker-runtime:1",
  allowedImages: ["127.0.0.1:5000/team/*", "vllm/vllm-openai", "local/desk:7"],
  filesDir: "/files",
  logLevel: "info",
} as const;

describe("the images of a host", () => {
  it.each([
    "stoker-runtime:1",
    "local/desk:7",
    `vllm/vllm-openai@${digest}`,
    `vllm/vllm-openai:v1@${digest}`,
    `127.0.0.1:5000/team/model@${digest}`,
  ])("include %s", (image) => expect(whyImageRefused(image, host)).toBeUndefined());

  it.each([
    ["local/desk:8", "STOKER_ALLOWED_IMAGES"],
    [`evil/vllm/vllm-openai@${digest}`, "does not allow"],
    [`vllm/vllm-openai-evil@${digest}`, "does not allow"],
    [`vllm/vllm-openai@${digest}@${digest}`, "does not allow"],
    [`127.0.0.1:5000/teammate/model@${digest}`, "does not allow"],
    ["vllm/vllm-openai", "without its digest"],
    ["vllm/vllm-openai:latest", "without its digest"],
    ["vllm/vllm-openai@sha256:short", "without its digest"],
  ])("is not %s, and says why", (image, why) => expect(whyImageRefused(image, host)).toContain(why));

  it("is checked by the agent whatever the control plane sends", () => {
    const asked = planInstance(instanceSpec({ image: "somebody/else:latest" }), "/model", host);
    expect(asked).toMatchObject({ ok: false, code: "image_refused" });
    expect(
      planInstance(instanceSpec({ image: "somebody/else:latest" }), "/model", { ...host, driver: "process" }),
    ).toMatchObject({ ok: true });
  });
});
