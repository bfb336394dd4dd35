import type { ReactNode } from "react";
import type { Enrolment } from "../../domain/host.ts";
import { text } from "../../text/fleet-host.ts";
import { Copy } from "../../ui/code.tsx";
import { bytes, count, percent } from "../../ui/format.ts";
import { Facts, Section } from "../../ui/page.tsx";
import { Ago } from "../../ui/time.tsx";
import type { NodeDetail } from "./host.tsx";

const words = text.facts;

interface HostFactsProps {
  readonly node: NodeDetail;
  readonly identity: Enrolment["nodes"][number] | undefined;
}

export function HostFacts({ node, identity }: HostFactsProps): ReactNode {
  const { load, usage_spool: spool, clock_skew_seconds: skew, disks, networks, advertise } = node;
  const unless = (value: string): string => value || words.none;
  return (
    <Section title={words.title}>
      <Facts
        of={[
          {
            label: words.machine,
            value: words.machineText(node.cpu_model, node.cpu_cores, bytes(node.memory_bytes), node.os),
          },
          {
            label: words.load,
            value: load
              ? words.loadText(percent(load.cpu_ratio), bytes(load.memory_used_bytes), bytes(load.memory_total_bytes))
              : words.none,
          },
          {
            label: words.disk,
            value: load ? words.diskText(bytes(load.disk_free_bytes), bytes(load.disk_total_bytes)) : words.none,
          },
          { label: words.seen, value: words.seconds(node.silent_seconds) },
          { label: words.clock, value: skew === null ? words.none : words.clockText(skew) },
          {
            label: words.spool,
            value: spool ? words.spoolText(count(spool.records), spool.oldest_age_seconds) : words.none,
          },
          { label: words.agent, value: unless(node.agent_version) },
          { label: words.driver, value: unless(node.nvidia_driver_version) },
          { label: words.cuda, value: unless(node.cuda_version) },
          { label: words.docker, value: unless(node.docker_version) },
          { label: words.drivers, value: unless(node.drivers.join(", ")) },
          { label: words.pool, value: unless(node.pool) },
          {
            label: words.dataPath,
            value: unless(advertise),
            note: advertise === "" ? undefined : advertise.startsWith("https:") ? words.tls : words.plain,
          },
          identity && {
            label: words.certificate,
            value: (
              <>
                {words.expires} <Ago at={identity.certificate_expires_at} />
              </>
            ),
          },
          node.metrics_address !== "" && { label: words.metrics, value: node.metrics_address },
          disks.length > 0 && {
            label: words.disks,
            value: disks.map(({ mount, free_bytes: free, total_bytes: all }) => (
              <div key={mount}>{`${mount}: ${words.diskText(bytes(free), bytes(all))}`}</div>
            )),
          },
          networks.length > 0 && {
            label: words.networks,
            value: networks.map(({ name, addresses }) => <div key={name}>{`${name}: ${addresses.join(", ")}`}</div>),
          },
          { label: words.joined, value: <Ago at={node.created_at} /> },
          {
            label: words.id,
            value: (
              <span className="copied">
                <code>{node.node_id}</code> <Copy value={node.node_id} />
              </span>
            ),
          },
        ]}
      />
    </Section>
  );
}
