import { describe, expect, it } from "vitest";
import { faultOf } from "../../../../agent/docker/engine-fault.ts";

const answer = (statusCode: number, message: string): Error =>
  Object.assign(new Error(`(HTTP code ${statusCode}) - ${message}`), { statusCode, json: { message } });
const system = (code: string): Error => Object.assign(new Error(`connect ${code}`), { code });

describe("an engine's refusal", () => {
  it.each([
    [system("ENOENT"), "engine_away", true, /systemctl start docker/],
    [system("EACCES"), "engine_away", true, /group docker/],
    [new Error("socket hang up"), "engine_away", true, /does not answer/],
    [answer(404, "No such image: stoker-runtime:9"), "image_missing", false, /no image img.*runtime-image\.sh/],
    [
      answer(500, 'could not select device driver "nvidia" with capabilities: [[gpu]]'),
      "gpu_runtime_missing",
      false,
      /toolkit/,
    ],
    [answer(500, "write /var/lib/docker/x: no space left on device"), "no_space", true, /docker system df/],
    [
      answer(400, "invalid mount config: bind source path does not exist: /x"),
      "start_failed",
      true,
      /bind source path/,
    ],
  ])("maps %s to %s", (error, code, retryable, text) => {
    const fault = faultOf(error, "img");
    expect(fault).toMatchObject({ name: "DriverError", code, retryable });
    expect(fault.message).toMatch(text);
    expect(fault.cause).toBe(error);
  });
});
