import { describe, expect, it } from "vitest";
import { inOrderOfWork, ofApplication, ofGpu, ofRate, ofTopup } from "../../../console/domain/approvals.ts";

const limit = {
  id: "gpr_1",
  uid: "u:1",
  email: "ada@example.com",
  display_name: "ada",
  reason: "a launch",
  revision: 3,
  created_at: 100,
  status: "open" as const,
  resolved_at: null,
  resolution_reason: null,
};
const gpu = { ...limit, requested_max: { "H100-80GB": 16 }, requested_min: { "L4-24GB": 1 } };

describe("requests of customers", () => {
  it("say what is asked for and where it is decided", () => {
    expect(ofGpu(gpu)).toMatchObject({
      what: "16 × H100-80GB, at least 1 × L4-24GB",
      path: "/v1/admin/gpu-pool-requests/gpr_1",
      grant: "approve",
      gpuTypes: ["H100-80GB", "L4-24GB"],
      revision: 3,
    });
    expect(ofRate({ ...limit, rate_limit: 4000, tpm_rate_limit: null }).what).toBe("4,000 concurrent requests");
    const topup = { id: "t", uid: "u:1", email: "ada@example.com", display_name: "ada", amount_usd: 20 };
    expect(ofTopup({ ...topup, state: "requested", created_at: 1 })).toMatchObject({
      isOpen: true,
      grant: "fulfil",
      path: "/v1/admin/topup-requests/t",
      name: "ada",
      email: "ada@example.com",
    });
  });

  it("come in the order of work: the longest waiting first, then the last decided", () => {
    const decided = (id: string, at: number) => ofGpu({ ...gpu, id, status: "rejected", resolved_at: at });
    const open = (id: string, at: number) => ofGpu({ ...gpu, id, created_at: at });
    const all = [decided("a", 10), open("b", 200), decided("c", 20), open("d", 100)];
    expect(inOrderOfWork(all).map(({ id }) => id)).toEqual(["d", "b", "c", "a"]);
  });

  it("of the startup program carry the company and the operator's note", () => {
    const application = ofApplication({
      id: "x",
      uid: "u:1",
      email: "ada@example.com",
      company: "Engines",
      ceo: "Ada",
      funding: "seed",
      founded_on: "2026",
      website: "https://example.com",
      deal: "",
      created_at: 1,
      status: "rejected",
      decided_at: 2,
      decision_note: "not yet",
    });
    expect(application).toMatchObject({
      isOpen: false,
      answer: "not yet",
      reason: "Ada, seed, 2026, https://example.com",
    });
  });
});
