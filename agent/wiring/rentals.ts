// Rented containers on this host: their own driver, and the reason if they cannot be offered.
import type { Logger } from "pino";
import type { HostId } from "../../proto/ids.ts";
import type { AgentConfig } from "../config.ts";
import type { ContainerDriver } from "../reconcile/driver.ts";

interface Rentals {
  readonly driver: ContainerDriver | undefined;
  /** Names of images, or why none can be offered; asked at every reading of the inventory. */
  readonly offer: () => Promise<{ rentalImages: string[]; rentalsUnavailable: string }>;
}

export async function createRentals(config: AgentConfig, hostId: HostId, log: Logger): Promise<Rentals> {
  const { rentals } = config;
  if (rentals.images.size === 0)
    return { driver: undefined, offer: async () => ({ rentalImages: [], rentalsUnavailable: "" }) };
  const [{ DockerDriver }, { createRentalFirewall }, { rentalProfile }, { rootOf }] = await Promise.all([
    import("../docker/docker-driver.ts"),
    import("../docker/rental-firewall.ts"),
    import("../docker/rental-profile.ts"),
    import("../docker/engine-client.ts"),
  ]);
  // Apart from the models' containers, so that neither driver sees the other's.
  const nodeName = `${hostId}-rentals`;
  const firewall = createRentalFirewall({ nodeName, denied: rentals.denied, deniedPorts: rentals.deniedPorts });
  const address = rentals.address ?? (config.advertise ? new URL(config.advertise).hostname : config.ingressHost);
  const profile = rentalProfile({ ...rentals, nodeName, address, firewall, log });
  const driver = new DockerDriver({ log, nodeName, containerSubnet: rentals.subnet, runtimeImage: "", profile });
  if (rentals.devices === "none")
    log.warn(
      { alert: "rentals_without_gpus" },
      "STOKER_RENTAL_DEVICES=none: rented containers get NO GPU. This is for tests; customers would pay for nothing.",
    );

  let reported: string | undefined;
  const report = (reason: string): void => {
    if (reported !== reason) log.warn({ reason }, "this host offers no rentals");
    reported = reason;
  };
  let isSafeRootReported = false;
  return {
    driver,
    async offer() {
      const why = (await firewall.whyNot()) ?? (await engineTrouble());
      if (why !== undefined) {
        report(why);
        return { rentalImages: [], rentalsUnavailable: why };
      }
      reported = undefined;
      return { rentalImages: [...rentals.images.keys()].sort(), rentalsUnavailable: "" };
    },
  };

  async function engineTrouble(): Promise<string | undefined> {
    try {
      const root = await rootOf(AbortSignal.timeout(5_000));
      if (root === "host" && !isSafeRootReported)
        log.warn(
          "root in a rented container is the host's root with few capabilities: set userns-remap of the Docker engine to map it to an unprivileged user",
        );
      isSafeRootReported = true;
      return undefined;
    } catch (error) {
      return (error as Error).message;
    }
  }
}
