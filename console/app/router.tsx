import { Button, Stack, Text, Title } from "@mantine/core";
import {
  createRootRoute,
  createRoute,
  createRouter,
  type ErrorComponentProps,
  lazyRouteComponent,
  useParams,
} from "@tanstack/react-router";
import type { ComponentType, ReactNode } from "react";
import { text } from "../text/common.ts";
import { LinkButton } from "../ui/link.tsx";
import { ErrorNotice } from "../ui/notice.tsx";
import { Page } from "../ui/page.tsx";
import { base } from "./base.ts";
import { pages } from "./navigation.ts";
import type { PageEntry } from "./page-entry.ts";
import { parseSearch, stringifySearch } from "./place.ts";
import { Shell } from "./shell.tsx";
import { useVisitor } from "./visitor.ts";

const root = createRootRoute({ component: Shell, notFoundComponent: NotFound, errorComponent: Crashed });

const routes = pages.map((page) =>
  createRoute({
    getParentRoute: () => root,
    path: page.path,
    component: lazyRouteComponent(async () => ({ default: allowed(page, await page.load()) })),
  }),
);

export const router = createRouter({
  routeTree: root.addChildren(routes),
  basepath: base,
  parseSearch,
  stringifySearch,
  defaultPreload: "intent",
  scrollRestoration: true,
});

/** Parameter of the page's path, decoded. */
export const useParam = (name: string): string =>
  (useParams({ strict: false }) as Readonly<Record<string, string | undefined>>)[name] ?? "";

/** An operator's page does not exist for others, nor one of the owner for an operator who views the account. */
function allowed({ section, isForOwner }: PageEntry, Content: ComponentType): ComponentType {
  if (section !== "operator" && !isForOwner) return Content;
  return function GuardedPage() {
    const { me, operator } = useVisitor();
    const isHidden = section === "operator" ? !me.is_admin : operator !== undefined;
    return isHidden ? <NotFound /> : <Content />;
  };
}

function NotFound(): ReactNode {
  return (
    <Page title={text.notFound.title}>
      <div>
        <LinkButton to="/">{text.notFound.back}</LinkButton>
      </div>
    </Page>
  );
}

function Crashed({ error }: ErrorComponentProps): ReactNode {
  return (
    <Stack p="lg" gap="md">
      <Title order={1}>{text.crashed.title}</Title>
      <Text>{text.crashed.advice}</Text>
      <ErrorNotice error={error} />
      <div>
        <Button onClick={() => location.reload()}>{text.crashed.reload}</Button>
      </div>
    </Stack>
  );
}
