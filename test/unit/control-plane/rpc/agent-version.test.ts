import { describe, expect, it } from "vitest";
import { whyNotSpokenWith } from "../../../../control-plane/rpc/agent-version.ts";

describe("an agent's version", () => {
  it.each(["1.4.2", "1.4.3", "1.5.0", "2.0.0", "1.10.0", "v1.4.2", "1.4.2-rc.1", "1.4.2+build.7"])(
    "%s is spoken with where 1.4.2 is the least",
    (version) => expect(whyNotSpokenWith(version, "1.4.2")).toBeUndefined(),
  );
  it.each(["1.4.1", "1.3.9", "0.99.99", "1.4.1-rc.9"])("%s is told to be replaced", (version) => {
    const why = whyNotSpokenWith(version, "1.4.2");
    expect(why).toContain(`version ${version}`);
    expect(why).toContain("1.4.2 and later");
  });
  it.each(["", "one", "1", "1.4", "1.4.2.3", "1.4.x", `1.${"4".repeat(400)}.2`])("%j is none", (version) => {
    const why = whyNotSpokenWith(version, "1.4.2") ?? "";
    expect(why).toContain("which is none such as 1.4.2");
    expect(why.length).toBeLessThan(300);
  });
});
