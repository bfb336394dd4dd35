// Models of every kind, tried in the browser.
import { Skeleton, Tabs, Text } from "@mantine/core";
import { IconColumns2, IconGridDots, IconMessage, IconMicrophone, IconPhoto, IconVolume } from "@tabler/icons-react";
import { type ComponentType, lazy, type ReactNode, Suspense } from "react";
import { useFilter } from "../../app/place.ts";
import type { ModelSummary } from "../../domain/models.ts";
import { isMode, type Mode, modelsFor, modes } from "../../domain/playground.ts";
import { text } from "../../text/playground.ts";
import { Loaded } from "../../ui/notice.tsx";
import { Page } from "../../ui/page.tsx";
import { useModels } from "../models/use-models.ts";
import { Missing } from "./missing.tsx";

export interface ModeProps {
  /** At least one. */
  readonly models: readonly ModelSummary[];
}

// Code of a mode is loaded when it is opened.
const contents: Readonly<Record<Mode, ComponentType<ModeProps>>> = {
  chat: lazy(async () => ({ default: (await import("./chat.tsx")).ChatMode })),
  compare: lazy(async () => ({ default: (await import("./compare.tsx")).Compare })),
  embeddings: lazy(async () => ({ default: (await import("./embeddings.tsx")).Embeddings })),
  images: lazy(async () => ({ default: (await import("./images.tsx")).Images })),
  speech: lazy(async () => ({ default: (await import("./speech.tsx")).Speech })),
  transcription: lazy(async () => ({ default: (await import("./transcription.tsx")).Transcription })),
};

const icons: Readonly<Record<Mode, ComponentType<{ size?: number }>>> = {
  chat: IconMessage,
  compare: IconColumns2,
  embeddings: IconGridDots,
  images: IconPhoto,
  speech: IconVolume,
  transcription: IconMicrophone,
};

export function Playground(): ReactNode {
  const [wanted, setMode] = useFilter("mode");
  const mode = isMode(wanted) ? wanted : "chat";
  const models = useModels();
  return (
    <Page title={text.title} about={text.about}>
      <Loaded query={models}>
        {(all) => {
          const Content = contents[mode];
          const fitting = modelsFor(mode, all);
          return (
            <Tabs value={mode} onChange={(value) => setMode(value === "chat" ? "" : (value ?? ""))} keepMounted={false}>
              <Tabs.List aria-label={text.mode} className="scrolling-tabs" mb="md">
                {modes.map((one) => {
                  const Icon = icons[one];
                  const isMissing = modelsFor(one, all).length === 0;
                  return (
                    <Tabs.Tab key={one} value={one} leftSection={<Icon size={16} />}>
                      {text.modes[one]}
                      {isMissing && (
                        <Text component="span" size="xs" c="dimmed" ml={6}>
                          {text.unavailable}
                        </Text>
                      )}
                    </Tabs.Tab>
                  );
                })}
              </Tabs.List>
              <Tabs.Panel value={mode}>
                <Suspense fallback={<Skeleton height={240} />}>
                  {fitting.length === 0 ? <Missing mode={mode} /> : <Content models={fitting} />}
                </Suspense>
              </Tabs.Panel>
            </Tabs>
          );
        }}
      </Loaded>
    </Page>
  );
}
