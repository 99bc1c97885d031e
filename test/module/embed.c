/* An Emacs without an Emacs: loads the module as Emacs does, and calls its functions.

   embed MODULE reads lines such as

     version
     set-roots @ ["/one" "/two"]

   each a function of the module without the prefix that all have, and its arguments: integers, strings,
   symbols and vectors.  @ is the companion, the last user pointer that a function has returned.  It
   prints a line for each: what the function returns, or (signal SYMBOL DATA).  In addition, `wake-up'
   waits until the module has written to the pipe of `set-wake-pipe', whose argument is any symbol.

   All that the module asks of an Emacs is here; what is not makes this program abort.  */

#include <assert.h>
#include <emacs-module.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef _WIN32
# include <windows.h>
#else
# include <dlfcn.h>
# include <poll.h>
# include <unistd.h>
#endif

#define PREFIX "gemini-companion--mod-"

enum kind { SYMBOL, INTEGER, REAL, STRING, VECTOR, CONS, FUNCTION, POINTER };

struct emacs_value_tag
{
  enum kind kind;
  emacs_value next;		/* All values are in a list, until the end.  */
  intmax_t integer;
  double number;
  char *bytes;			/* The name of a symbol, or a string.  */
  ptrdiff_t size;
  emacs_value *items;		/* The two values of a cons, or those of a vector.  */
  emacs_value definition;	/* That of a symbol.  */
  emacs_function function;
  ptrdiff_t min, max;
  void *data;
  emacs_finalizer finalizer;
};

static emacs_value values, nil, companion;
static enum emacs_funcall_exit pending;
static emacs_value pending_symbol, pending_data;

/* Values.  */

static void *
allocate (size_t count, size_t size)
{
  void *memory = calloc (count ? count : 1, size);
  if (!memory)
    abort ();
  return memory;
}

static emacs_value
make (enum kind kind)
{
  emacs_value value = allocate (1, sizeof *value);
  value->kind = kind;
  value->next = values;
  values = value;
  return value;
}

static emacs_value
make_bytes (enum kind kind, const char *bytes, ptrdiff_t size)
{
  emacs_value value = make (kind);
  value->bytes = allocate (size + 1, 1);
  memcpy (value->bytes, bytes, size);
  value->size = size;
  return value;
}

static emacs_value
make_items (enum kind kind, ptrdiff_t size, emacs_value *items)
{
  emacs_value value = make (kind);
  value->items = allocate (size, sizeof *items);
  if (size)
    memcpy (value->items, items, size * sizeof *items);
  value->size = size;
  return value;
}

static emacs_value
intern (const char *name)
{
  for (emacs_value value = values; value; value = value->next)
    if (value->kind == SYMBOL && !strcmp (value->bytes, name))
      return value;
  return make_bytes (SYMBOL, name, strlen (name));
}

static void
signal_error (const char *symbol, emacs_value data)
{
  if (pending != emacs_funcall_exit_return)
    return;
  pending = emacs_funcall_exit_signal;
  pending_symbol = intern (symbol);
  pending_data = make_items (CONS, 2, (emacs_value[]) { data, nil });
}

/* Whether VALUE is a KIND; if not, an error is pending.  */
static bool
is (emacs_value value, enum kind kind)
{
  if (value->kind == kind)
    return true;
  signal_error ("wrong-type-argument", value);
  return false;
}

/* What the module may call, in the order of emacs-module.h.  */

static emacs_value
make_global_ref (emacs_env *env, emacs_value value)
{
  return value;
}

static void
free_global_ref (emacs_env *env, emacs_value value)
{
}

static enum emacs_funcall_exit
non_local_exit_check (emacs_env *env)
{
  return pending;
}

static void
non_local_exit_clear (emacs_env *env)
{
  pending = emacs_funcall_exit_return;
}

static enum emacs_funcall_exit
non_local_exit_get (emacs_env *env, emacs_value *symbol, emacs_value *data)
{
  if (pending != emacs_funcall_exit_return)
    {
      *symbol = pending_symbol;
      *data = pending_data;
    }
  return pending;
}

static void
non_local_exit_signal (emacs_env *env, emacs_value symbol, emacs_value data)
{
  pending = emacs_funcall_exit_signal;
  pending_symbol = symbol;
  pending_data = data;
}

static void
non_local_exit_throw (emacs_env *env, emacs_value tag, emacs_value value)
{
  abort ();
}

static emacs_value
make_function (emacs_env *env, ptrdiff_t min, ptrdiff_t max, emacs_function function,
	       const char *docstring, void *data)
{
  emacs_value value = make (FUNCTION);
  value->function = function;
  value->min = min;
  value->max = max;
  value->data = data;
  return value;
}

/* The functions of Lisp that the module calls.  */
static emacs_value
call_lisp (const char *name, ptrdiff_t count, emacs_value *arguments)
{
  if (!strcmp (name, "fset") || !strcmp (name, "defalias"))
    return arguments[0]->definition = arguments[1];
  if (!strcmp (name, "vector"))
    return make_items (VECTOR, count, arguments);
  if (!strcmp (name, "cons"))
    return make_items (CONS, 2, arguments);
  if (!strcmp (name, "list"))
    {
      emacs_value list = nil;
      while (count--)
	list = make_items (CONS, 2, (emacs_value[]) { arguments[count], list });
      return list;
    }
  if (!strcmp (name, "make-vector"))
    {
      emacs_value vector = make_items (VECTOR, 0, NULL);
      vector->size = arguments[0]->integer;
      free (vector->items);
      vector->items = allocate (vector->size, sizeof *vector->items);
      for (ptrdiff_t i = 0; i < vector->size; i++)
	vector->items[i] = arguments[1];
      return vector;
    }
  if (!strcmp (name, "string-bytes"))
    {
      emacs_value size = make (INTEGER);
      size->integer = arguments[0]->size;
      return size;
    }
  if (!strcmp (name, "car") || !strcmp (name, "cdr"))
    return arguments[0] == nil ? nil : arguments[0]->items[name[1] == 'd'];
  if (!strcmp (name, "cadr"))
    return call_lisp ("car", 1, (emacs_value[]) { call_lisp ("cdr", 1, arguments) });
  /* The module asks for functions of Lisp once, and calls them by name all the same.  */
  if (!strcmp (name, "indirect-function"))
    return arguments[0];
  if (!strcmp (name, "get") || !strcmp (name, "put") || !strcmp (name, "define-error")
      || !strcmp (name, "provide"))
    return nil;
  fprintf (stderr, "embed: the module calls %s\n", name);
  abort ();
}

static emacs_value
funcall (emacs_env *env, emacs_value function, ptrdiff_t count, emacs_value *arguments)
{
  if (function->kind == SYMBOL && !function->definition)
    return call_lisp (function->bytes, count, arguments);
  if (function->kind == SYMBOL)
    function = function->definition;
  if (!is (function, FUNCTION))
    return nil;
  if (count < function->min || (function->max != emacs_variadic_function && count > function->max))
    {
      signal_error ("wrong-number-of-arguments", nil);
      return nil;
    }
  emacs_value value = function->function (env, count, arguments, function->data);
  return pending == emacs_funcall_exit_return ? value : nil;
}

static emacs_value
env_intern (emacs_env *env, const char *name)
{
  return intern (name);
}

static emacs_value
type_of (emacs_env *env, emacs_value value)
{
  static const char *names[] = { "symbol", "integer", "float", "string", "vector", "cons",
				 "module-function", "user-ptr" };
  return intern (names[value->kind]);
}

static bool
is_not_nil (emacs_env *env, emacs_value value)
{
  return value != nil;
}

static bool
eq (emacs_env *env, emacs_value a, emacs_value b)
{
  return a == b || (a->kind == INTEGER && b->kind == INTEGER && a->integer == b->integer);
}

static intmax_t
extract_integer (emacs_env *env, emacs_value value)
{
  return is (value, INTEGER) ? value->integer : 0;
}

static emacs_value
make_integer (emacs_env *env, intmax_t integer)
{
  emacs_value value = make (INTEGER);
  value->integer = integer;
  return value;
}

static double
extract_float (emacs_env *env, emacs_value value)
{
  return is (value, REAL) ? value->number : 0;
}

static emacs_value
make_float (emacs_env *env, double number)
{
  emacs_value value = make (REAL);
  value->number = number;
  return value;
}

static bool
copy_string_contents (emacs_env *env, emacs_value value, char *buffer, ptrdiff_t *size)
{
  if (!is (value, STRING))
    return false;
  ptrdiff_t needed = value->size + 1;
  bool fits = buffer && *size >= needed;
  if (fits)
    memcpy (buffer, value->bytes, needed);
  else if (buffer)
    signal_error ("args-out-of-range", value);
  *size = needed;
  return fits || !buffer;
}

static emacs_value
make_string (emacs_env *env, const char *bytes, ptrdiff_t size)
{
  return make_bytes (STRING, bytes, size);
}

static emacs_value
make_user_ptr (emacs_env *env, emacs_finalizer finalizer, void *data)
{
  emacs_value value = make (POINTER);
  value->finalizer = finalizer;
  value->data = data;
  return value;
}

static void *
get_user_ptr (emacs_env *env, emacs_value value)
{
  return is (value, POINTER) ? value->data : NULL;
}

static emacs_finalizer
get_user_finalizer (emacs_env *env, emacs_value value)
{
  return is (value, POINTER) ? value->finalizer : NULL;
}

static bool
is_index (emacs_value vector, ptrdiff_t index)
{
  if (!is (vector, VECTOR))
    return false;
  if (index >= 0 && index < vector->size)
    return true;
  signal_error ("args-out-of-range", vector);
  return false;
}

static emacs_value
vec_get (emacs_env *env, emacs_value vector, ptrdiff_t index)
{
  return is_index (vector, index) ? vector->items[index] : nil;
}

static void
vec_set (emacs_env *env, emacs_value vector, ptrdiff_t index, emacs_value value)
{
  if (is_index (vector, index))
    vector->items[index] = value;
}

static ptrdiff_t
vec_size (emacs_env *env, emacs_value vector)
{
  return is (vector, VECTOR) ? vector->size : 0;
}

#ifndef _WIN32
/* The read end of the pipe by which the module wakes Lisp.  */
static int wake_pipe = -1;

static int
open_channel (emacs_env *env, emacs_value process)
{
  int ends[2];
  if (pipe (ends))
    abort ();
  wake_pipe = ends[0];
  return ends[1];
}
#endif

static struct emacs_env_28 env = {
  .size = sizeof env,
  .make_global_ref = make_global_ref,
  .free_global_ref = free_global_ref,
  .non_local_exit_check = non_local_exit_check,
  .non_local_exit_clear = non_local_exit_clear,
  .non_local_exit_get = non_local_exit_get,
  .non_local_exit_signal = non_local_exit_signal,
  .non_local_exit_throw = non_local_exit_throw,
  .make_function = make_function,
  .funcall = funcall,
  .intern = env_intern,
  .type_of = type_of,
  .is_not_nil = is_not_nil,
  .eq = eq,
  .extract_integer = extract_integer,
  .make_integer = make_integer,
  .extract_float = extract_float,
  .make_float = make_float,
  .copy_string_contents = copy_string_contents,
  .make_string = make_string,
  .make_unibyte_string = make_string,
  .make_user_ptr = make_user_ptr,
  .get_user_ptr = get_user_ptr,
  .get_user_finalizer = get_user_finalizer,
  .vec_get = vec_get,
  .vec_set = vec_set,
  .vec_size = vec_size,
#ifndef _WIN32
  .open_channel = open_channel,
#endif
};

static emacs_env *
get_environment (struct emacs_runtime *runtime)
{
  return (emacs_env *) &env;
}

/* Loading.  */

static void *
symbol_of (void *module, const char *name)
{
#ifdef _WIN32
  void *symbol = (void *) GetProcAddress (module, name);
#else
  void *symbol = dlsym (module, name);
#endif
  if (!symbol)
    {
      fprintf (stderr, "embed: the module lacks %s\n", name);
      exit (1);
    }
  return symbol;
}

static void
load (const char *file)
{
#ifdef _WIN32
  void *module = LoadLibraryA (file);
#else
  void *module = dlopen (file, RTLD_LAZY);
#endif
  if (!module)
    {
      fprintf (stderr, "embed: %s cannot be loaded\n", file);
      exit (1);
    }
  symbol_of (module, "plugin_is_GPL_compatible");
  int (*init) (struct emacs_runtime *) = symbol_of (module, "emacs_module_init");
  struct emacs_runtime runtime = { sizeof runtime, NULL, get_environment };
  if (init (&runtime) || pending != emacs_funcall_exit_return)
    {
      fprintf (stderr, "embed: the module cannot be initialized\n");
      exit (1);
    }
}

/* Reading and printing.  */

static emacs_value
read_value (char **text)
{
  char *end = *text;
  emacs_value items[64];
  ptrdiff_t count = 0;
  switch (*end)
    {
    case '@':
      *text = end + 1;
      return companion ? companion : nil;
    case '"':
      {
	char *to = ++end, *start = end;
	for (; *end && *end != '"'; end++)
	  *to++ = *end == '\\' ? (*++end == 'n' ? '\n' : *end) : *end;
	*text = end + 1;
	return make_bytes (STRING, start, to - start);
      }
    case '[':
      for (end++; *end && *end != ']'; end += strspn (end, " "))
	{
	  assert (count < 64);
	  items[count++] = read_value (&end);
	}
      *text = end + 1;
      return make_items (VECTOR, count, items);
    }
  size_t length = strcspn (end, " ]\n");
  char name[256] = "";
  assert (length && length < sizeof name);
  memcpy (name, end, length);
  *text += length;
  intmax_t integer = strtoimax (name, &end, 10);
  return *end ? intern (name) : make_integer (NULL, integer);
}

static void
print (emacs_value value)
{
  switch (value->kind)
    {
    case SYMBOL:
      printf ("%s", value->bytes);
      break;
    case INTEGER:
      printf ("%" PRIdMAX, value->integer);
      break;
    case REAL:
      printf ("%f", value->number);
      break;
    case STRING:
      putchar ('"');
      for (ptrdiff_t i = 0; i < value->size; i++)
	if (value->bytes[i] == '\n')
	  printf ("\\n");
	else
	  {
	    if (strchr ("\"\\", value->bytes[i]))
	      putchar ('\\');
	    putchar (value->bytes[i]);
	  }
      putchar ('"');
      break;
    case VECTOR:
    case CONS:
      printf (value->kind == VECTOR ? "[" : "(");
      for (ptrdiff_t i = 0; i < value->size; i++)
	{
	  printf (i ? (value->kind == CONS ? " . " : " ") : "");
	  print (value->items[i]);
	}
      printf (value->kind == VECTOR ? "]" : ")");
      break;
    case FUNCTION:
      printf ("function");
      break;
    case POINTER:
      printf ("companion");
      break;
    }
}

/* Return t if the module has woken us, nil if it has not within a minute.  */
static emacs_value
wake_up (void)
{
#ifndef _WIN32
  char bytes[64];
  struct pollfd readable = { wake_pipe, POLLIN, 0 };
  if (poll (&readable, 1, 60000) == 1 && read (wake_pipe, bytes, sizeof bytes) > 0)
    return intern ("t");
#endif
  return nil;
}

static void
answer (char *line)
{
  emacs_value arguments[16];
  char name[256];
  ptrdiff_t count = 0;
  size_t length = strcspn (line, " \n");
  snprintf (name, sizeof name, PREFIX "%.*s", (int) length, line);
  line += length;
  while (*(line += strspn (line, " \n")) && count < 16)
    arguments[count++] = read_value (&line);
  emacs_value value = strcmp (name, PREFIX "wake-up")
    ? funcall ((emacs_env *) &env, intern (name), count, arguments) : wake_up ();
  if (value->kind == POINTER)
    companion = value;
  if (pending != emacs_funcall_exit_return)
    {
      printf ("(signal ");
      print (pending_symbol);
      printf (" ");
      print (pending_data);
      printf (")");
      pending = emacs_funcall_exit_return;
    }
  else
    print (value);
  printf ("\n");
  fflush (stdout);
}

/* What the garbage collector of Emacs does, too.  */
static void
free_all (void)
{
  for (emacs_value value = values, next; value; value = next)
    {
      next = value->next;
      if (value->finalizer)
	value->finalizer (value->data);
      free (value->bytes);
      free (value->items);
      free (value);
    }
}

int
main (int count, char **arguments)
{
  static char line[1 << 16];
  if (count != 2)
    return 2;
  nil = intern ("nil");
  load (arguments[1]);
  while (fgets (line, sizeof line, stdin))
    answer (line);
  free_all ();
  return 0;
}
