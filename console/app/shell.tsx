// Frame of every page: header, menu, command palette, suspension banner.
import {
  ActionIcon,
  Alert,
  AppShell,
  Avatar,
  Burger,
  Button,
  Divider,
  Group,
  Kbd,
  Menu,
  ScrollArea,
  Text,
  useComputedColorScheme,
  useMantineColorScheme,
} from "@mantine/core";
import { useDisclosure, useHotkeys } from "@mantine/hooks";
import { notifications } from "@mantine/notifications";
import {
  IconAlertTriangle,
  IconCheck,
  IconEye,
  IconLogout,
  IconMoon,
  IconSearch,
  IconSun,
  IconSwitchHorizontal,
} from "@tabler/icons-react";
import { Outlet, useLocation, useNavigate } from "@tanstack/react-router";
import { lazy, type ReactNode, Suspense, useEffect, useState } from "react";
import type { Responses } from "../../proto/gen/responses.ts";
import { useGet } from "../api/hooks.ts";
import type { Checklist } from "../domain/checklist.ts";
import { nearLimitOf, suspensionOf } from "../domain/suspension.ts";
import { text as common } from "../text/common.ts";
import { text } from "../text/navigation.ts";
import { nearLimit } from "../text/suspension.ts";
import { usd } from "../ui/format.ts";
import { Link, RouterNavLink } from "../ui/link.tsx";
import { ErrorNotice } from "../ui/notice.tsx";
import { useMenu } from "./menu.ts";
import type { SectionName } from "./page-entry.ts";
import { mayDo, useVisitor } from "./visitor.ts";

const loadPalette = () => import("./palette.tsx");
const Palette = lazy(async () => ({ default: (await loadPalette()).Palette }));

const sectionNames = Object.keys(text.sections) as SectionName[];

export function Shell(): ReactNode {
  const [isOpen, { toggle, close }] = useDisclosure();
  const [isPaletteUsed, setPaletteUsed] = useState(false);
  const openPalette = () => {
    if (isPaletteUsed) void loadPalette().then((loaded) => loaded.openPalette());
    setPaletteUsed(true);
  };
  // Once it is shown, it listens for its keys itself.
  useHotkeys(isPaletteUsed ? [] : [["mod+K", openPalette]], []);
  const { pathname } = useLocation();
  // A phone's menu covers the page that was chosen.
  // biome-ignore lint/correctness/useExhaustiveDependencies: at each page.
  useEffect(() => close(), [pathname]);
  useEffect(() => {
    addEventListener("keydown", focusSearch);
    return () => removeEventListener("keydown", focusSearch);
  }, []);
  return (
    <AppShell
      header={{ height: 52 }}
      navbar={{ width: 232, breakpoint: "sm", collapsed: { mobile: !isOpen } }}
      padding={{ base: "sm", sm: "lg" }}
    >
      <a className="skip-link" href="#content">
        {text.skip}
      </a>
      <AppShell.Header>
        <Group h="100%" px="md" justify="space-between" wrap="nowrap">
          <Group gap="sm" wrap="nowrap">
            <Burger opened={isOpen} onClick={toggle} hiddenFrom="sm" size="sm" aria-label={text.openMenu} />
            <Link to="/" underline="never" c="inherit" fw={700} fz="lg">
              {common.product}
            </Link>
          </Group>
          <Group gap="xs" wrap="nowrap">
            <Button
              variant="default"
              size="xs"
              leftSection={<IconSearch size={14} />}
              rightSection={<Kbd size="xs">Ctrl K</Kbd>}
              onClick={openPalette}
              visibleFrom="sm"
            >
              {text.search}
            </Button>
            <ActionIcon variant="default" size="lg" hiddenFrom="sm" aria-label={text.search} onClick={openPalette}>
              <IconSearch size={18} />
            </ActionIcon>
            <ColorScheme />
            <AccountMenu />
          </Group>
        </Group>
      </AppShell.Header>
      <AppShell.Navbar p="xs" aria-label={text.menu}>
        <AppShell.Section grow component={ScrollArea} type="scroll">
          <MenuLinks />
        </AppShell.Section>
      </AppShell.Navbar>
      <AppShell.Main id="content" tabIndex={-1}>
        <ViewBanner />
        <SuspensionBanner />
        <Outlet />
      </AppShell.Main>
      <Suspense>{isPaletteUsed && <Palette />}</Suspense>
    </AppShell>
  );
}

function MenuLinks(): ReactNode {
  const menu = useMenu();
  const { pathname } = useLocation();
  return sectionNames.map((section) => {
    const own = menu.filter((page) => page.section === section);
    if (own.length === 0) return null;
    const name = text.sections[section];
    return (
      <nav key={section} aria-label={name || text.menu}>
        {name && (
          <Text size="xs" c="dimmed" fw={600} px="sm" pt="md" pb={4}>
            {name}
          </Text>
        )}
        {own.map(({ path, title, icon: Icon }) => (
          <RouterNavLink
            key={path}
            to={path}
            label={title}
            active={isWithin(pathname, path)}
            aria-current={isWithin(pathname, path) ? "page" : undefined}
            leftSection={Icon && <Icon size={18} stroke={1.6} />}
            py={6}
          />
        ))}
      </nav>
    );
  });
}

/** `pathname` is without the base path. A page's own details stand below it. */
const isWithin = (pathname: string, path: string): boolean =>
  path === "/" ? pathname === "/" : pathname === path || pathname.startsWith(`${path}/`);

function ColorScheme(): ReactNode {
  const { setColorScheme } = useMantineColorScheme();
  const scheme = useComputedColorScheme("light");
  return (
    <ActionIcon
      variant="default"
      size="lg"
      aria-label={text.colorScheme}
      onClick={() => setColorScheme(scheme === "dark" ? "light" : "dark")}
    >
      {scheme === "dark" ? <IconSun size={18} /> : <IconMoon size={18} />}
    </ActionIcon>
  );
}

function AccountMenu(): ReactNode {
  const { me, person, operator, permissions, signOut } = useVisitor();
  const navigate = useNavigate();
  const menu = useMenu();
  return (
    <Menu position="bottom-end" width={240}>
      <Menu.Target>
        <ActionIcon variant="default" size="lg" radius="xl" aria-label={text.account}>
          <Avatar size={28} radius="xl" color="ember" />
        </ActionIcon>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Label>
          <Text size="sm" fw={600}>
            {me.display_name}
          </Text>
          <Text size="xs">{person ? text.actsAs(person.display_name, permissions?.member_role ?? "") : me.email}</Text>
        </Menu.Label>
        <Divider />
        {!operator && <Accounts />}
        {menu
          .filter(({ section }) => section === "account")
          .map(({ path, title }) => (
            <Menu.Item key={path} onClick={() => void navigate({ to: path as never })}>
              {title}
            </Menu.Item>
          ))}
        <Menu.Item component="a" href="/docs">
          {text.docs}
        </Menu.Item>
        <Divider />
        <Menu.Item leftSection={<IconLogout size={16} />} onClick={() => void signOut()}>
          {text.signOut}
        </Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}

/** The person's own account and their organizations. */
function Accounts(): ReactNode {
  const { me, person, switchTo } = useVisitor();
  const { data } = useGet<Responses["GET /v1/organizations"]>("/v1/organizations");
  const navigate = useNavigate();
  const organizations = data?.organizations ?? [];
  if (organizations.length === 0) return null;
  const own = person ?? me;
  const choose = async (uid: string | undefined) => {
    try {
      await switchTo(uid);
      await navigate({ to: "/" as never });
    } catch (error) {
      notifications.show({ color: "red", message: <ErrorNotice error={error} />, withBorder: true });
    }
  };
  const accounts = [
    { uid: undefined, name: own.display_name, isShown: person === undefined },
    ...organizations.map(({ uid, display_name: name }) => ({ uid, name, isShown: me.uid === uid })),
  ];
  return (
    <>
      <Menu.Label>{text.accounts}</Menu.Label>
      {accounts.map(({ uid, name, isShown }) => (
        <Menu.Item
          key={uid ?? ""}
          disabled={isShown}
          leftSection={isShown ? <IconCheck size={16} /> : <IconSwitchHorizontal size={16} />}
          onClick={() => void choose(uid)}
        >
          {name}
        </Menu.Item>
      ))}
      <Divider />
    </>
  );
}

/** `/` focuses the search box unless an input has the focus. */
function focusSearch(event: KeyboardEvent): void {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
  if ((event.target as Element | null)?.closest?.("input, textarea, select, [contenteditable]")) return;
  const box = document.querySelector<HTMLInputElement>("main input[type=search]");
  if (!box) return;
  event.preventDefault();
  box.focus();
}

/** Shown on every page while an operator views another account. */
function ViewBanner(): ReactNode {
  const { me, operator, endView } = useVisitor();
  const navigate = useNavigate();
  if (!operator) return null;
  const end = () => {
    endView();
    void navigate({ to: `/accounts/${encodeURIComponent(me.uid)}` as never });
  };
  return (
    <Alert color="violet" variant="filled" icon={<IconEye />} mb="md" role="status" className="view-banner">
      <Group justify="space-between" gap="xs">
        <Text size="sm">{text.viewing(me.display_name, me.email ?? me.uid)}</Text>
        <Button size="xs" variant="white" color="violet" onClick={end}>
          {text.endView}
        </Button>
      </Group>
    </Alert>
  );
}

/** Shown on every page while the account is suspended. */
function SuspensionBanner(): ReactNode {
  const readsMoney = mayDo(useVisitor(), "readMoney");
  const { data } = useGet<Responses["GET /v1/me/suspension"]>("/v1/me/suspension", { everyMs: 60_000 });
  if (!data) return null;
  if (data.suspend_reason === null) return readsMoney && <LimitNotice />;
  const { why, act, page } = suspensionOf(data.suspend_reason);
  return (
    <Alert color="red" icon={<IconAlertTriangle />} mb="md" role="status" className="no-print">
      {why}{" "}
      {page && readsMoney ? (
        <Link to={page} inherit>
          {act}
        </Link>
      ) : (
        act
      )}
    </Alert>
  );
}

/** A notice before the monthly limit stops requests. */
function LimitNotice(): ReactNode {
  const { data: list } = useGet<Checklist>("/payment/checklist", { everyMs: 60_000 });
  const percent = list && nearLimitOf(list);
  if (percent === undefined || !list || list.limit === null) return null;
  return (
    <Alert color="yellow" icon={<IconAlertTriangle />} mb="md" role="status" className="no-print">
      {nearLimit.why(percent, usd(list.limit))}{" "}
      <Link to="/billing" inherit>
        {nearLimit.act}
      </Link>
    </Alert>
  );
}
