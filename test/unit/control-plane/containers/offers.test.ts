import { describe, expect, it } from "vitest";
import { offeredImages, offers, parseGpuConfig } from "../../../../control-plane/containers/availability.ts";
import { place } from "../../../../control-plane/deployments/placement-preview.ts";
import type { Inventory } from "../../../../control-plane/fleet/host.ts";
import { account, gpu, hostView, inventory } from "../../../fakes/fleet-records.ts";

const h100 = (index: number, uuid = `GPU-${index}`) => gpu(index, { uuid, type: "H100-80GB" });
const renting = (id: string, over: Partial<Inventory> = {}) =>
  hostView(id, { inventory: inventory({ rentalImages: ["torch"], gpus: [h100(0), h100(1)], ...over }) });
const rates = new Map([["H100-80GB", 2_000_000_000n]]);
const want = { gpu: "H100-80GB", gpusPerInstance: 1, memoryBytes: 0, engine: "container", host: undefined } as const;

describe("a gpu_config", () => {
  it("is a number of whole GPUs of one type", () => {
    expect(parseGpuConfig("8xB200-180GB")).toEqual({ count: 8, gpu: "B200-180GB" });
    expect(parseGpuConfig("1xother")).toEqual({ count: 1, gpu: "other" });
  });

  const wrong = [
    "B200-180GB",
    "0xB200-180GB",
    "9xother",
    "08xother",
    "1xB200",
    "1x",
    "-1xother",
    "1.5xother",
    "1xother ",
  ];
  it.each(wrong)("is not %j", (text) =>
    expect(() => parseGpuConfig(text)).toThrow(/gpu_config: .* must be <count>x<type>/),
  );
});

describe("the offers for rent", () => {
  it("include every size of hosts that allow images, free or not, with its price", () => {
    const claims = [{ gpuUuid: "GPU-0", account }];
    expect(offers([{ ...renting("a"), claims }, hostView("models only")], rates)).toEqual([
      { gpuConfig: "1xH100-80GB", hourRate: 2_000_000_000n, isAvailable: true },
      { gpuConfig: "2xH100-80GB", hourRate: 4_000_000_000n, isAvailable: false },
    ]);
  });

  it("are unavailable if the GPUs are reserved for other accounts", () => {
    const available = (most: number) => offers([renting("a")], rates, () => most).map(({ isAvailable }) => isAvailable);
    expect([available(2), available(1), available(0)]).toEqual([
      [true, true],
      [true, false],
      [false, false],
    ]);
  });

  it("exclude hosts that are silent or have no firewall, and parts of a GPU", () => {
    const mig = renting("mig", { gpus: [h100(0, "MIG-1"), h100(1, "MIG-2")] });
    const silent = { ...renting("silent"), state: "unreachable" as const };
    expect(offers([mig, silent, renting("none", { rentalImages: [] })], rates)).toEqual([]);
    expect(offeredImages([mig, silent, renting("b", { rentalImages: ["a", "torch"] })])).toEqual(["a", "torch"]);
  });

  it("are placed only on hosts with that image; the others give a reason", () => {
    const why = "rentals need a firewall between customers, and iptables cannot be used here";
    const hosts = [renting("a", { rentalImages: [], rentalsUnavailable: why }), renting("b"), hostView("c")];
    expect(place({ ...want, rentalImage: "torch" }, hosts)).toMatchObject({ ok: true, host: "b" });
    expect(place({ ...want, rentalImage: "other" }, hosts)).toEqual({
      ok: false,
      rejections: [
        { host: "a", why },
        { host: "b", why: "it does not offer the image other" },
        { host: "c", why: "it does not offer the image other" },
      ],
    });
  });

  it("are whole GPUs: slices are ignored", () => {
    const host = renting("a", { gpus: [h100(0, "MIG-1"), h100(1)] });
    expect(place({ ...want, rentalImage: "torch" }, [host])).toMatchObject({ ok: true, gpus: [{ uuid: "GPU-1" }] });
    expect(place({ ...want, gpusPerInstance: 2, rentalImage: "torch" }, [host]).ok).toBe(false);
  });
});
