// The part of React's types that react.js uses. The types of React are no package of Debian, and an app brings its own.
declare module "react" {
  export function useCallback<T>(callback: T, dependencies: readonly unknown[]): T;
  export function useEffect(effect: () => void | (() => void), dependencies?: readonly unknown[]): void;
  export function useSyncExternalStore<T>(subscribe: (changed: () => void) => () => void, get: () => T, getOnServer?: () => T): T;
}
