import { describe, expect, it } from "vitest";
import { checkRequests } from "../../../console/domain/batch-file.ts";
import { callCode } from "../../../console/domain/call-snippets.ts";
import { currentRate, gpusOf, instanceRate } from "../../../console/domain/deployment.ts";
import { countsOf, typesWith } from "../../../console/domain/gpu-offers.ts";
import { perMillion } from "../../../console/domain/models.ts";
import { keyFaultOf } from "../../../console/domain/rental.ts";
import { readSchedule, scheduleText } from "../../../console/domain/schedules.ts";

const offer = (gpu_config: string, usd_per_hour: number, available: boolean) => ({
  gpu_config,
  usd_per_hour,
  available,
  recommended: false,
  devices: [] as string[],
});
const offers = [
  offer("1xH100-80GB", 3, true),
  offer("2xH100-80GB", 6, true),
  offer("4xH100-80GB", 12, false),
  offer("1xL4-24GB", 0.5, false),
];

describe("GPU offers", () => {
  it("list available types first, with the most that are free together", () => {
    expect(countsOf(offers)).toEqual([1, 2, 4]);
    expect(typesWith(1, offers)).toEqual([
      { gpu: "H100-80GB", usdPerHour: 3, isAvailable: true, freeAtLeast: 2 },
      { gpu: "L4-24GB", usdPerHour: 0.5, isAvailable: false, freeAtLeast: 0 },
    ]);
  });

  it("price any number of GPUs, and the instances that run", () => {
    const weights = { repo: "", revision: "", token: null };
    const one = {
      config: { gpu: "H100-80GB", num_gpus: 3, max_batch_size: 1, weights },
      instances: { running: 2, pending: 1, warming: 0 },
    };
    expect(instanceRate(one, offers)).toBe(9);
    expect(currentRate(one, offers)).toBe(18);
    expect(currentRate({ ...one, config: { ...one.config, gpu: "B200-180GB" } }, offers)).toBeUndefined();
  });
});

describe("a GPU of type other", () => {
  const other = (devices: string[]) => [...offers, { ...offer("1xother", 1, true), devices }];

  it("is named by what the hosts have", () => {
    expect(gpusOf(2, "other", other(["processor slot"]))).toBe("2 × processor slot");
    expect(gpusOf(1, "other", other(["Radeon RX 7600", "processor slot"]))).toBe(
      "1 × Radeon RX 7600 or processor slot",
    );
    expect(gpusOf(1, "other", other(["Arc", "Instinct", "Radeon", "other GPUs"]))).toBe(
      "1 × Arc or Instinct or other GPUs",
    );
    expect(gpusOf(1, "other", offers)).toBe("1 × GPU of unknown type");
    expect(gpusOf(1, "L4-24GB", other(["processor slot"]))).toBe("1 × L4-24GB");
  });
});

describe("schedules", () => {
  it.each(["mon-fri 08:00-18:00 Europe/Berlin min 2", "sat,sun 00:00-24:00 UTC min 1"])("read and write %s", (line) => {
    const schedule = readSchedule(line);
    expect(schedule && scheduleText(schedule)).toBe(line);
  });

  it("refuse other lines", () => {
    for (const line of ["mon 8-18 UTC min 2", "noday 08:00-18:00 UTC min 2", "mon-fri 08:00-18:00 UTC", ""])
      expect(readSchedule(line)).toBeUndefined();
  });
});

describe("a file of batch requests", () => {
  const line = JSON.stringify({ custom_id: "1", method: "POST", url: "/v1/embeddings", body: {} });

  it("is accepted with its number of lines and interface", () => {
    expect(checkRequests(`${line}\n${line}\n`)).toEqual({ lines: 2, fault: undefined, endpoint: "/v1/embeddings" });
  });

  it("names the first faulty line", () => {
    expect(checkRequests(`${line}\n{"custom_id":"2","body":{}}`).fault).toEqual({
      line: 2,
      why: { is: "no_field", field: "url" },
    });
    expect(checkRequests("[]").fault).toEqual({ line: 1, why: { is: "not_an_object" } });
  });
});

describe("an SSH key", () => {
  it("is refused if it is private or no key", () => {
    expect(keyFaultOf("ssh-ed25519 AAAAC3Nz ada@laptop")).toBeUndefined();
    expect(keyFaultOf("-----BEGIN OPENSSH PRIVATE KEY-----")).toBe("private");
    expect(keyFaultOf("hello")).toBe("not_public");
  });
});

describe("code that calls a model", () => {
  it.each([
    ["text-generation", "/v1/chat/completions"],
    ["embeddings", "/v1/embeddings"],
    ["reranker", "/v1/rerank"],
    ["text-to-image", "/v1/images/generations"],
    ["text-to-speech", "/v1/audio/speech"],
    ["automatic-speech-recognition", "/v1/audio/transcriptions"],
    ["fill-mask", "/v1/inference/ada/model"],
  ])("of %s uses %s in every language", (task, path) => {
    const code = callCode({ url: "https://gpu.example", model: "ada/model", task });
    expect(code.path).toBe(path);
    expect(code.examples.curl).toContain(`https://gpu.example${path}`);
    for (const example of Object.values(code.examples)) {
      expect(example).toContain("STOKER_API_KEY");
      expect(example).toContain("ada/model");
    }
  });

  it("names a voice that the model has", () => {
    const codeOf = (model: string) => callCode({ url: "https://gpu.example", model, task: "text-to-speech" }).examples;
    for (const example of Object.values(codeOf("rhasspy/piper-en_US-joe-medium")))
      expect(example).toContain('"en_US-joe-medium"');
    for (const example of Object.values(codeOf("hexgrad/Kokoro-82M"))) expect(example).toContain('"af_heart"');
  });
});

describe("the price of a model per million tokens", () => {
  it("is unknown where the model is paid by another unit", () => {
    const rates = { cents_per_input_token: 0, cents_per_output_token: 0 };
    const of = (type: string) => perMillion({ pricing: { type, ...rates } } as Parameters<typeof perMillion>[0]);
    expect(of("input_character_length")).toEqual({ input: undefined, output: undefined });
    expect(of("tokens")).toEqual({ input: 0, output: 0 });
  });
});
