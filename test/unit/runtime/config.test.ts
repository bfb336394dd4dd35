import { describe, expect, it } from "vitest";
import { ConfigError, readConfig } from "../../../runtime/config.ts";

const env = { STOKER_INSTANCE_ID: "i", STOKER_MODEL_PATH: "/m.gguf", STOKER_SERVED_MODEL_NAME: "o/m" };

describe("the model server's configuration", () => {
  it("never takes more threads than granted or existing cores, and at least one", () => {
    const threads = (cpus: string) => readConfig({ ...env, STOKER_CPUS: cpus }, 8).threads;
    expect([threads("0.5"), threads("2.9"), threads("64")]).toEqual([1, 2, 8]);
  });

  it("reports every problem at once", () => {
    const read = () => readConfig({ STOKER_MODEL_PATH: "/m.bin", STOKER_PORT: "70000", STOKER_GPU_LAYERS: "some" }, 2);
    expect(read).toThrow(ConfigError);
    try {
      read();
    } catch (error) {
      expect((error as ConfigError).problems).toHaveLength(5);
    }
  });
});
