// Page of a deployment: what it does, costs and waits for, and everything that changes it.
import { Stack, Tabs } from "@mantine/core";
import { IconPlayerPlay } from "@tabler/icons-react";
import { lazy, type ReactNode } from "react";
import { useApi } from "../../api/context.ts";
import { useGet, useRefresh } from "../../api/hooks.ts";
import { useFilter } from "../../app/place.ts";
import { useParam } from "../../app/router.tsx";
import { currentRate, type Deployment, instanceRate, isEnded, type Offer } from "../../domain/deployment.ts";
import { text } from "../../text/deployments.ts";
import { Act } from "../../ui/act.tsx";
import { usd } from "../../ui/format.ts";
import { Link, LinkButton } from "../../ui/link.tsx";
import { Loaded } from "../../ui/notice.tsx";
import { Page, Section } from "../../ui/page.tsx";
import { Status } from "../../ui/status.tsx";
import { PageTabs } from "../../ui/tabs.tsx";
import { Configuration } from "./configuration.tsx";
import { Endpoint } from "./endpoint.tsx";
import { FailureLog } from "./failure-log.tsx";
import { Figures } from "./figures.tsx";
import { Instances } from "./instances.tsx";
import { Notices } from "./notices.tsx";
import { PhaseStrip } from "./phase-strip.tsx";
import { Rollout } from "./rollout.tsx";
import { useOffers } from "./use-offers.ts";

// Code of a tab is loaded when it is opened.
const Events = lazy(async () => ({ default: (await import("./events.tsx")).Events }));
const Logs = lazy(async () => ({ default: (await import("./logs.tsx")).Logs }));
const Metrics = lazy(async () => ({ default: (await import("./metrics.tsx")).Metrics }));
const ScaleForm = lazy(async () => ({ default: (await import("./scale-form.tsx")).ScaleForm }));
const Versions = lazy(async () => ({ default: (await import("./versions.tsx")).Versions }));
const UpdateForm = lazy(async () => ({ default: (await import("./update-form.tsx")).UpdateForm }));

const words = text.detail;
const tabs = Object.entries(words.tabs);

export function DeploymentPage(): ReactNode {
  const id = useParam("id");
  const path = `/deploy/${encodeURIComponent(id)}`;
  const deployment = useGet<Deployment>(path, { everyMs: 3000 });
  const gpus = useOffers(60_000);
  const one = deployment.data;
  return (
    <Page
      title={one?.model_name ?? text.title}
      beside={one && <States one={one} />}
      about={<Link to="/deployments">{words.back}</Link>}
      actions={one && <Actions one={one} offers={gpus} />}
    >
      <Loaded query={deployment}>{(found) => <Content one={found} offers={gpus} />}</Loaded>
    </Page>
  );
}

/** The status, and whether its instances sleep. */
function States({ one: { status, progress } }: { one: Deployment }): ReactNode {
  const phase = progress?.phase ?? "";
  return (
    <>
      <Status of={status} size="lg" />
      {status === "deployed" && ["asleep", "waking"].includes(phase) && <Status of={phase} size="lg" />}
    </>
  );
}

interface PartProps {
  readonly one: Deployment;
  readonly offers: readonly Offer[];
}

function Actions({ one, offers }: PartProps): ReactNode {
  const api = useApi();
  const refresh = useRefresh();
  const { deploy_id: id, status, model_name: model } = one;
  const path = `/deploy/${encodeURIComponent(id)}`;
  const call = async (method: "POST" | "DELETE", verb: string) => {
    await api.call(method, `${path}${verb}`);
    await refresh("/deploy");
  };
  const now = currentRate(one, offers);
  const rate = now ? text.perHour(usd(now)) : "";
  const canTry = status === "deployed" || status === "updating";
  const gone = status === "deleted" ? words.whyNoStop.deleted : undefined;
  const stopping = status === "stopping" ? words.whyNoStop.stopping : undefined;
  const whyNoStop = gone ?? stopping;
  return (
    <>
      {canTry && (
        <LinkButton
          to={`/playground?model=${encodeURIComponent(model)}`}
          size="xs"
          leftSection={<IconPlayerPlay size={14} />}
        >
          {words.tryIt}
        </LinkButton>
      )}
      {status === "stopped" || status === "failed" ? (
        <Act
          label={words.start}
          command={`stoker deploy start ${id}`}
          done={words.started}
          onAct={() => call("POST", "/start")}
        />
      ) : (
        <Act
          label={words.stop}
          command={`stoker deploy stop ${id}`}
          done={words.stopped}
          {...(whyNoStop ? { why: whyNoStop } : {})}
          confirm={{ title: words.stopTitle(model), body: words.stopBody(one.instances.running, rate) }}
          onAct={() => call("POST", "/stop")}
        />
      )}
      <Act
        label={words.delete}
        color="red"
        variant="light"
        command={`stoker deploy delete ${id}`}
        done={words.deleted}
        {...(gone ? { why: gone } : {})}
        confirm={{
          title: words.deleteTitle(model),
          body: isEnded(status) ? words.deleteEndedBody : words.deleteBody(rate),
          ...(one.instances.running > 0 ? { word: model } : {}),
        }}
        onAct={() => call("DELETE", "")}
      />
    </>
  );
}

function Content({ one, offers }: PartProps): ReactNode {
  const [, setTab] = useFilter("tab");
  const [, setInstance] = useFilter("instance");
  const { deploy_id: id } = one;
  const showLog = (instance: string) => {
    setInstance(instance);
    setTab("logs");
  };
  return (
    <Stack gap="md">
      <Notices one={one}>
        <FailureLog id={id} onLogs={() => setTab("logs")} />
      </Notices>
      {one.status !== "deleted" && <Figures one={one} offers={offers} />}
      <PhaseStrip one={one} />
      <Rollout one={one} />
      <PageTabs label={words.tabsLabel} tabs={tabs}>
        <Tabs.Panel value="overview">
          <Stack gap="md">
            <Endpoint one={one} />
            <Instances one={one} onLog={showLog} />
            <Configuration one={one} />
          </Stack>
        </Tabs.Panel>
        <Tabs.Panel value="metrics">
          <Metrics id={id} />
        </Tabs.Panel>
        <Tabs.Panel value="logs">
          <Section>
            <Logs id={id} />
          </Section>
        </Tabs.Panel>
        <Tabs.Panel value="events">
          <Section>
            <Events path={`/deploy/${encodeURIComponent(id)}/events`} onInstance={showLog} />
          </Section>
        </Tabs.Panel>
        <Tabs.Panel value="settings">
          <Stack gap="md">
            <ScaleForm one={one} rate={instanceRate(one, offers)} />
            <UpdateForm one={one} />
            {one.type !== "lora" && <Versions id={id} />}
          </Stack>
        </Tabs.Panel>
      </PageTabs>
    </Stack>
  );
}
